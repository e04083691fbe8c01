"""Votes: for every task, the variant that is best on average over the seeds gets one."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from modtf.analysis.comparable import check_ways
from modtf.analysis.intervals import LEVEL, intervals, t_interval
from modtf.analysis.labels import known_variants
from modtf.metrics import smaller_is_better
from modtf.results.schema import KIND

UNIT = (*KIND, "num_rules", "width", "data_seed", "distribution", "measure")


def votes(rows: pd.DataFrame, variants: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one vote for each task of each cell and condition.

    A task votes only if every variant was run on it. Variants are averaged over the seeds that all of them
    have, so that no variant profits from an easier seed. Variants that tie share the vote. The vote is NaN
    if one of these models diverged.

    Args:
        rows: see `performance_rows`.
        variants: the candidates; by default those of the families.

    Returns:
        The columns of `UNIT`, `variant`, `vote` (0..1, they sum to 1; or NaN) and `num_seeds`.

    Raises:
        ValueError: if a model appears twice, for example for two checkpoints, or candidates cannot be
            compared, see `check_ways`.
    """
    variants = known_variants(rows["arch"].unique()) if variants is None else list(variants)
    rows = rows[rows["variant"].isin(variants)]
    rows = rows.assign(value=rows["value"].where(np.isfinite(rows["value"]), np.inf))  # below, NaN: not run
    key = [*UNIT, "seed"]
    check_ways(rows)
    if rows.duplicated([*key, "variant"]).any():
        raise ValueError(
            "The rows hold a model more than once for a condition. Choose one checkpoint and protocol first."
        )
    rows = rows.astype({name: object for name in (*UNIT, "variant") if rows[name].dtype == "category"})
    wide = rows.set_index([*key, "variant"])["value"].unstack("variant").reindex(columns=variants).dropna()
    if wide.empty:
        return pd.DataFrame(columns=[*UNIT, "variant", "vote", "num_seeds"])
    grouped = wide.groupby(list(UNIT))
    means = grouped.mean()
    counts = grouped.size().rename("num_seeds")
    sign = means.index.get_level_values("measure").map(lambda name: 1.0 if smaller_is_better(name) else -1.0)
    scores = means.to_numpy() * np.asarray(sign, float)[:, np.newaxis]
    best = scores == scores.min(axis=1, keepdims=True)
    share = pd.DataFrame(best / best.sum(axis=1, keepdims=True), means.index, means.columns)
    share[np.isinf(means).any(axis=1)] = np.nan
    result = share.reset_index().melt(id_vars=list(UNIT), var_name="variant", value_name="vote")
    return result.merge(counts.reset_index(), on=list(UNIT))


def rank(cast: pd.DataFrame, by: Sequence[str] = ("distribution",), level: float = LEVEL) -> pd.DataFrame:
    """Return each variant's share of the `votes`, for every combination of `by`, which are columns of `UNIT`.

    Returns:
        The columns of `by`, variant, share (every data seed has the same weight), low, high, num_tasks,
        num_votes.
    """
    table = intervals(cast, [*by, "variant"], "vote", level)
    least = share_error(table["mean"], table["num_models"]) * np.sqrt(table["num_tasks"])
    low, high = t_interval(table["mean"], least, table["num_tasks"], level)
    table["low"] = np.minimum(table["low"], low).clip(0, 1)
    table["high"] = np.maximum(table["high"], high).clip(0, 1)
    return table.rename(columns={"mean": "share", "num_models": "num_votes"}).drop(columns="num_missing")


def share_error(share: pd.Series, num_votes: pd.Series) -> pd.Series:
    """Return the smallest standard error of a share of votes.

    Three tasks that all vote alike have no spread, but they do not prove that a fourth would agree. So the
    error is at least that of as many independent votes, with one vote added on each side.
    """
    smoothed = (share * num_votes + 1) / (num_votes + 2)
    return np.sqrt(smoothed * (1 - smoothed) / num_votes)
