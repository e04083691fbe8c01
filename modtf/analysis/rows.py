"""The rows of the results that hold performance, and those that hold activation measures."""

from collections.abc import Iterable

import pandas as pd

from modtf.analysis.labels import RANDOM, task_of
from modtf.metrics import activation_measures, measure_all, uniform_activation
from modtf.results.schema import KIND
from modtf.tasks.families import FAMILIES, IID

IN, OUT = "in distribution", "out of distribution"
#: for readers of collapse, where `has_unequal_rules`
COLLAPSES = "perfect routing has collapse, because rules are unequally frequent: compare it with gt_modular"


def performance_rows(frame: pd.DataFrame, headline: bool = True) -> pd.DataFrame:
    """Return the performance: the loss of regression, the error of classification, or a family's own measure.

    Args:
        frame: the table of `load_results` or `load_history`.
        headline: keep two conditions only and name them in a new column `distribution`. "in distribution"
            is the training condition. "out of distribution" is the family's headline: one condition, or the
            mean over a group of conditions. A headline that is the training condition is not repeated.

    Example:
        >>> performance_rows(frame).distribution.unique()  # doctest: +SKIP
    """
    kinds = frame[["arch", "setting"]].drop_duplicates().astype(str).itertuples(index=False, name=None)
    keep = pd.Series(False, frame.index)
    outside = pd.Series(False, frame.index)
    for arch, setting in kinds:
        judged = (frame["arch"] == arch) & (frame["setting"] == setting)
        judged &= frame["measure"] == FAMILIES[arch].performance_measure(setting)
        headed = judged & (frame["condition"] == FAMILIES[arch].headline)
        keep |= (headed | (judged & (frame["condition"] == IID))) if headline else judged
        outside |= headed & (frame["condition"] != IID)
    if not headline:
        return frame[keep]
    names = pd.Categorical.from_codes(outside[keep].astype(int), categories=[IN, OUT])
    return frame[keep].assign(distribution=names)


def headline_label(arch: str) -> str:
    """Return the name of the family's out-of-distribution condition or group: "inputs x 2, 30 tokens"."""
    family = FAMILIES[arch]
    is_group = family.headline in family.groups
    return f"mean over {family.headline}" if is_group else family.condition(family.headline).label


def activation_rows(frame: pd.DataFrame, directed: bool = False) -> pd.DataFrame:
    """Return the registered measures of activation, of the models with several modules.

    Args:
        directed: leave out measures of which neither end is better, which cannot compare models.
    """
    measures = activation_measures()
    names = [m.name for m in measures if not (directed and m.smaller_is_better is None)]
    return frame[frame["measure"].isin(names) & (frame["num_modules"] > 1)]


def has_unequal_rules(frame: pd.DataFrame) -> bool:
    """Return whether some task type trains on unequally frequent rules, so that perfect routing collapses."""
    kinds = frame[[*KIND, "num_rules"]].drop_duplicates().itertuples(index=False, name=None)
    tasks = [task_of(str(arch), str(setting), str(words), int(r)) for arch, setting, words, r in kinds]
    return any(task.family.rule_probs(task) is not None for task in tasks)


def random_at_places(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the measures of random routing at the routed layers of models of one task type and R.

    Columns: place, num_modules, measure, value, for each layer's own R and every M of `activation_rows`.
    """
    arch, setting, options = frame[["arch", "setting", "task_options"]].astype(str).iloc[0]
    num_rules = int(frame["num_rules"].iloc[0])
    places = task_of(arch, setting, options, num_rules).places
    seen = frame[["place", "num_modules"]].astype({"place": str}).drop_duplicates()
    rows = [
        (place, modules, name, value)
        for place, modules in sorted(seen.itertuples(index=False, name=None))
        if place in places
        for name, value in measure_all(uniform_activation(places[place].num_rules, modules)).items()
    ]
    return pd.DataFrame(rows, columns=["place", "num_modules", "measure", "value"])


def random_baseline(num_rules: Iterable[int], num_modules: Iterable[int] | None = None) -> pd.DataFrame:
    """Return the measures of random routing, the last row of tables and figures; nothing is trained.

    Args:
        num_rules: the R of some models.
        num_modules: the M of each; R by default.

    Returns:
        num_rules, num_modules, variant ("random", or "random (12 modules)" if M is not R), measure, value.

    Example:
        >>> random_baseline([2]).set_index("measure").value["alignment"]
        np.float64(0.5)
    """
    rules = list(num_rules)
    rows = [
        (r, m, RANDOM if r == m else f"{RANDOM} ({m} modules)", name, value)
        for r, m in sorted(set(zip(rules, num_modules or rules, strict=True)))
        for name, value in measure_all(uniform_activation(r, m)).items()
    ]
    table = pd.DataFrame(rows, columns=["num_rules", "num_modules", "variant", "measure", "value"])
    return table.astype({"value": float})
