"""The rows of results: those that may be compared, those that hold performance, and those of activation."""

from collections.abc import Iterable, Sequence

import pandas as pd

from modtf.analysis.labels import RANDOM, kind_label, task_of
from modtf.base.checks import check_choice, check_names
from modtf.metrics import activation_measures, measure_all, uniform_activation
from modtf.results.schema import CELL, CHECKPOINTS, KIND, MEMBER, SCORE
from modtf.tasks.families import FAMILIES, IID

POOLED = "pooled"  # the mean of last and best for each model, as in the main figures of the released code
CHOICES = (*CHECKPOINTS, POOLED)
IN, OUT = "in distribution", "out of distribution"
#: for readers of collapse, where `has_unequal_rules`
COLLAPSES = "perfect routing has collapse, because rules are unequally frequent: compare it with gt_modular"


def select_protocols(frame: pd.DataFrame, protocols: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows of the given protocols; by default all rows.

    Raises `ValueError` if no cell followed one; otherwise see `check_ways`.
    """
    for protocol in check_names("protocols", protocols):
        check_choice("protocol", protocol, sorted(frame["protocol"].unique()) or ["(none)"])
    if protocols:
        frame = frame[frame["protocol"].isin(protocols)]
    check_ways(frame)
    return frame


def check_ways(frame: pd.DataFrame) -> None:
    """Raise `ValueError` if models of a task type were trained or evaluated in ways that cannot be compared.

    They may differ in the learning rate alone, and one variant of one R and width may not even differ in
    that. Rows that do not tell how models were trained pass.
    """
    if not {*CELL, "protocol", "folder"} <= set(frame):
        return
    if not frame[[*KIND, "protocol"]].drop_duplicates().duplicated(list(KIND)).any():
        return  # one protocol everywhere, as in most studies
    ways = frame.drop_duplicates([*CELL, "protocol", "folder"])
    for kind, rows in ways.groupby(list(KIND), observed=True):
        by_protocol = rows.groupby("protocol", observed=True)["folder"].agg(["size", "first"])
        apart_from_the_rate = {str(protocol).partition("@")[0] for protocol in by_protocol.index}
        rates = rows.groupby(list(CELL), observed=True)["protocol"].nunique()
        if len(apart_from_the_rate) > 1 or rates.max() > 1:
            listed = "; ".join(
                f"{p}: {r['size']} cell(s), such as {r['first']}" for p, r in by_protocol.iterrows()
            )
            raise ValueError(
                f"The {kind_label(*map(str, kind))} cells were trained or evaluated in {len(by_protocol)} "
                f"different ways, which cannot be compared ({listed}). Choose one by --protocol "
                "(protocols=[...]), or give another folder."
            )


def check_checkpoint(frame: pd.DataFrame, checkpoint: str) -> None:
    """Raise `ValueError` unless the models of all rows have a checkpoint."""
    models = frame.drop_duplicates([*MEMBER, "protocol", "checkpoint"])
    counts = models["checkpoint"].value_counts()
    whole = set(counts.index[counts == len(models.drop_duplicates([*MEMBER, "protocol"]))])
    if not whole.issuperset(parts_of(checkpoint)) and len(frame):
        others = f"Choose --checkpoint={sorted(whole)[-1]}, or give" if whole else "Give"
        raise ValueError(
            f"Only some models have the checkpoint {checkpoint!r}, so the others would be left out of every "
            f"comparison. {others} another folder."
        )


def parts_of(checkpoint: str) -> tuple[str, ...]:
    """Return the checkpoints whose mean is a checkpoint."""
    return ("last", "best") if checkpoint == POOLED else (checkpoint,)


def select_checkpoint(frame: pd.DataFrame, checkpoint: str) -> pd.DataFrame:
    """Return the rows of one checkpoint; "pooled" is the mean of last and best.

    Raises `ValueError` if the rows lack it."""
    check_choice("checkpoint", checkpoint, CHOICES)
    names = [str(name) for name in frame["checkpoint"].unique()]
    wanted = parts_of(checkpoint)
    lacking = [name for name in wanted if name not in names]
    if len(frame) and lacking:
        raise ValueError(
            f"The results do not have the checkpoint {lacking[0]!r}, only {', '.join(names)}. Choose "
            f"--checkpoint={names[0]}."
        )
    rows = frame[frame["checkpoint"].isin(wanted)]
    return _pooled(rows) if checkpoint == POOLED else rows


def _pooled(rows: pd.DataFrame) -> pd.DataFrame:
    key = [*MEMBER, *(name for name in SCORE if name != "checkpoint"), "protocol"]
    # the sum of a model that diverged is not finite, so that it stays diverged; a mean would skip it
    means = rows.groupby(key, observed=True)["value"].agg(lambda v: v.sum(skipna=False) / len(v))
    once = rows.drop_duplicates(key).drop(columns="value")
    pooled = once.merge(means.reset_index(), on=key)[list(rows)]
    return pooled.assign(checkpoint=pd.Categorical([POOLED] * len(pooled)))


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
