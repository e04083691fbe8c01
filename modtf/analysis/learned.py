"""How far models have learned: loss or error in distribution, compared with the best constant answer's."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.labels import task_of
from modtf.analysis.rows import IN, performance_rows
from modtf.results.schema import KIND, MEMBER
from modtf.tasks.families.varied import irreducible, option_of
from modtf.tasks.task import Task

LEARNED = 0.75  # models with a larger share of the best constant answer's loss or error have not learned
SIZES = [*KIND, "kind", "num_rules"]


def has_learned(values: Iterable[float], constant: float, at_most: float = LEARNED) -> bool:
    """Return whether the median loss or error of models is at most a share of the best constant answer's.

    Models that diverged do not count. Where the constant answer's is unknown (NaN), so is the answer: True.
    """
    share = np.median([value for value in values if np.isfinite(value)] or [np.inf]) / constant
    return not share > at_most


def constant_error(task: Task) -> float:
    """Return the error of the best constant answer in percent.

    It is NaN if a task's options make its classes unequally frequent; otherwise they are equally frequent.
    """
    if option_of(task, "form") or option_of(task, "shift"):
        return np.nan
    return 100 - 100 / (task.family.num_classes(task) if task.setting == "categorical" else 2)


def final_performance(study: Any) -> pd.DataFrame:
    """Return the loss or error in distribution of every model, with `constant`, that of the best constant
    answer, and `least`, the least that label noise allows.

    The loss of a constant is the median first loss of the models of a task, before training: their answers
    hardly vary. It is NaN if no model was evaluated more than once during training.
    """
    rows = study.performance[study.performance["distribution"] == IN].assign(constant=np.nan, least=0.0)
    for (arch, setting, options, number), part in rows.groupby([*KIND, "num_rules"], observed=True):
        task, is_error = task_of(arch, setting, options, int(number)), (part["measure"] == "error").all()
        least = irreducible(task, "error" if is_error else "loss") or 0.0
        rows.loc[part.index, "least"] = 100 * least if is_error else least
        if is_error:
            rows.loc[part.index, "constant"] = constant_error(task)
    if rows["constant"].notna().all():
        return rows
    history = performance_rows(study.history)
    history = history[history["distribution"] == IN].sort_values("step")
    models, by = history.groupby([*MEMBER, "kind"], observed=True)["value"], [*SIZES, "data_seed"]
    first = models.first()[models.size() > 1].groupby(by, observed=True).median().to_dict()
    losses = [first.get(key, np.nan) for key in rows[by].itertuples(index=False, name=None)]
    return rows.assign(constant=rows["constant"].fillna(pd.Series(losses, rows.index, dtype=float)))


def learned_by_variant(study: Any) -> pd.DataFrame:
    """Return how much the models of each variant have left of the best constant answer's loss or error.

    Returns:
        One row per task type, R and variant: the columns of `KIND`, kind, num_rules, variant, left (beyond
        what label noise leaves; the median of models that did not diverge; NaN if there are none, or it is
        unknown), is_known, learned (see `has_learned`).
    """
    rows = final_performance(study)
    rows = rows.assign(left=(rows["value"] - rows["least"]) / (rows["constant"] - rows["least"]))
    found = []
    for key, part in rows.groupby([*SIZES, "variant"], observed=True):
        left, known = part["left"][np.isfinite(part["left"])], part["constant"].notna().any()
        found.append((*key, left.median(), known, has_learned(left, 1.0 if known else np.nan)))
    return pd.DataFrame(found, columns=[*SIZES, "variant", "left", "is_known", "learned"])


def shares_learned(study: Any) -> pd.DataFrame:
    """Return the share of the best constant answer's loss or error that the best variant has lost.

    0 says that nothing was learned, 1 that no loss is left.

    Returns:
        One row per task type and R: the columns of `KIND`, kind, num_rules, share (NaN if all models
        diverged, or it is unknown), is_known, learned (whether some variant has, or it is unknown).
    """
    sizes = learned_by_variant(study).groupby(SIZES, observed=True)
    table = sizes.agg(share=("left", "min"), is_known=("is_known", "any"), learned=("learned", "any"))
    return table.assign(share=1 - table["share"]).reset_index()


def only_learned(rows: pd.DataFrame, study: Any) -> pd.DataFrame:
    """Return the rows of task types and R at which some variant has learned, or this is unknown."""
    learned = study.learned[study.learned["learned"]]
    kept = set(learned[[*KIND, "num_rules"]].itertuples(index=False, name=None))
    return rows[[key in kept for key in rows[[*KIND, "num_rules"]].itertuples(index=False, name=None)]]


def variants_learned(study: Any) -> list[str]:
    """Return the variants that have learned in every task type at every R, or of which this is unknown."""
    table = learned_by_variant(study)
    failed = set(table.loc[~table["learned"], "variant"])
    return [name for name in study.variants if name not in failed]
