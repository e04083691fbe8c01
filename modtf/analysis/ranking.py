"""Votes: for every task, the variant that is best on average over the seeds gets one."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from modtf.metrics import smaller_is_better
from modtf.analysis.resampling import Bootstrap, intervals
from modtf.results.schema import TASK, VARIANTS

UNIT = ("arch", "setting", "search", "num_rules", "width", "data_seed", "condition", "measure")


def votes(rows: pd.DataFrame, variants: Sequence[str] = VARIANTS) -> pd.DataFrame:
    """One vote for each task of each cell and condition.

    A task votes only where every variant is there; variants are averaged over the seeds that all of them
    have, so that no variant profits from an easier seed. Variants that tie share the vote.

    Args:
        rows: performance rows with a `condition`, see `performance_rows`.
        variants: the candidates.

    Returns:
        The columns of `UNIT`, `variant`, `vote` (0..1, they sum to 1) and `num_seeds`. No rows where no task
        is complete.

    Raises:
        ValueError: if a model is there twice, for example for two checkpoints or protocols.
    """
    variants = list(variants)
    rows = rows[rows["variant"].isin(variants) & np.isfinite(rows["value"])]
    key = [*UNIT, "seed"]
    if rows.duplicated([*key, "variant"]).any():
        raise ValueError(
            "The rows hold a model more than once for a condition. Choose one checkpoint and protocol first."
        )
    empty = pd.DataFrame(columns=[*UNIT, "variant", "vote", "num_seeds"])
    wide = rows.set_index([*key, "variant"])["value"].unstack("variant").reindex(columns=variants).dropna()
    if wide.empty:
        return empty
    grouped = wide.groupby(list(UNIT), dropna=False)
    means = grouped.mean()
    counts = grouped.count().iloc[:, 0].rename("num_seeds")
    sign = means.index.get_level_values("measure").map(lambda name: 1.0 if smaller_is_better(name) else -1.0)
    scores = means.to_numpy() * np.asarray(sign, float)[:, np.newaxis]
    best = scores == scores.min(axis=1, keepdims=True)
    share = pd.DataFrame(best / best.sum(axis=1, keepdims=True), means.index, means.columns)
    result = share.reset_index().melt(id_vars=list(UNIT), var_name="variant", value_name="vote")
    return result.merge(counts.reset_index(), on=list(UNIT))


def rank(
    cast: pd.DataFrame,
    by: Sequence[str] = ("condition",),
    bootstrap: Bootstrap = Bootstrap(),  # noqa: B008  frozen
) -> pd.DataFrame:
    """The share of the votes of every variant.

    Args:
        cast: from `votes`.
        by: columns of `UNIT`; votes are counted for each combination of their values.
        bootstrap: tasks are drawn anew for the interval; a task that several widths vote on is drawn as one.

    Returns:
        The columns of `by`, variant, share, low, high, num_votes.
    """
    table = intervals(cast, [*by, "variant"], "vote", TASK, bootstrap)
    # A share counts every vote alike, also where the tasks have unequal numbers of widths.
    counted = cast.groupby([*by, "variant"], dropna=False)["vote"].mean().reset_index()
    table["mean"] = counted["vote"].to_numpy()
    return table.rename(columns={"mean": "share", "num_models": "num_votes"}).drop(
        columns=["num_missing", "num_tasks"]
    )
