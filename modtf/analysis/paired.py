"""Two variants on the same tasks and seeds: how much better is the one than the other?"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from modtf.analysis.intervals import LEVEL, intervals
from modtf.analysis.summary import refuse_mixtures
from modtf.metrics import smaller_is_better
from modtf.results.schema import CELL, SCORE

# Each against the next less informed variant.
PAIRS = (("modular", "monolithic"), ("modular_op", "modular"), ("gt_modular", "modular_op"))
OWN = ("variant", "model_options")  # what two variants of a pair may differ in
SAME = tuple(name for name in (*CELL, *SCORE, "distribution") if name not in OWN)
MATCH = (*(name for name in CELL if name not in OWN), "data_seed", "seed", *SCORE, "distribution", "step")


def match_members(frame: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Models of two variants that agree in everything else, task and seed included, side by side.

    Args:
        frame: rows of `Study.results`, in which variants with options have names of their own.
        first, second: values of its column `variant`.

    Returns:
        What they agree in, then `value_first`, `value_second`, `gain` (by how much the first is better, in
        the unit of the measure) and `advantage` (gain divided by the larger of the two magnitudes: 0.2 is a
        loss 20% below the other's, -0.2 one that the other undercuts by 20%; 0 where both are 0).

    Raises:
        ValueError: if a variant holds a model more than once.
    """
    key = [name for name in MATCH if name in frame]
    sides = [frame.loc[frame["variant"] == name, [*key, "value"]] for name in (first, second)]
    for name, side in zip((first, second), sides, strict=True):
        if side.duplicated(key).any():
            raise ValueError(
                f"The rows hold a model of {name!r} more than once. Choose one protocol and one set "
                "of options first, or read them with modtf.Study, which names variants with options."
            )
    pairs = sides[0].merge(sides[1], on=key, suffixes=("_first", "_second"))
    sign = {measure: 1.0 if smaller_is_better(measure) else -1.0 for measure in pairs["measure"].unique()}
    signs = pairs["measure"].astype(str).map(sign).astype(float)
    pairs["gain"] = (pairs["value_second"] - pairs["value_first"]) * signs
    largest = pairs[["value_first", "value_second"]].abs().max(axis=1, skipna=False)
    pairs["advantage"] = (pairs["gain"] / largest.replace(0.0, np.nan)).mask(largest == 0.0, 0.0)
    return pairs


def compare_pairs(
    frame: pd.DataFrame,
    pairs: Sequence[tuple[str, str]] = PAIRS,
    by: Sequence[str] = SAME,
    over: Sequence[str] = (),
    level: float = LEVEL,
) -> pd.DataFrame:
    """Paired comparisons of variants: same task, same seed.

    Args:
        frame: rows of `Study.results`, of registered measures (`modtf.metrics.MEASURES`).
        pairs: (first, second); positive numbers speak for the first.
        by: columns; each combination of their values becomes a row per pair.
        over: columns to average over on purpose. Gains then mix scales: read the advantage.
        level: of the intervals over data seeds.

    Returns:
        first, second, the columns of `by`, gain, gain_low, gain_high (difference in the measure's unit),
        advantage, advantage_low, advantage_high (relative, -1..1), effect_size (mean gain divided by its
        standard deviation over pairs), wins (share of pairs won, ties half), num_tasks, num_models
        (pairs), num_missing.

    Raises:
        ValueError: if a row would average over what `over` does not name.
    """
    by = [name for name in by if name in frame]
    tables = []
    for first, second in pairs:
        matched = match_members(frame, first, second)
        if matched.empty:
            continue
        refuse_mixtures(matched, by, over)
        matched["won"] = ((np.sign(matched["gain"]) + 1) / 2).where(np.isfinite(matched["gain"]))
        table = intervals(matched, by, "advantage", level).rename(columns=_renamed("advantage"))
        gain = intervals(matched, by, "gain", level).rename(columns=_renamed("gain"))
        won = intervals(matched, by, "won", level)["mean"]
        table = table.assign(**{name: gain[name] for name in _renamed("gain").values()}, wins=won)
        table["effect_size"] = _effect_size(matched, by)
        tables.append(table.assign(first=first, second=second))
    order = ["first", "second", *by, *_renamed("gain").values(), *_renamed("advantage").values()]
    order += ["effect_size", "wins", "num_tasks", "num_models", "num_missing"]
    return pd.concat(tables, ignore_index=True)[order] if tables else pd.DataFrame(columns=order)


def _renamed(name: str) -> dict[str, str]:
    return {"mean": name, "low": f"{name}_low", "high": f"{name}_high"}


def _effect_size(matched: pd.DataFrame, by: list[str]) -> np.ndarray:
    """mean / standard deviation of the gain of every row; NaN for one pair or gains that are all equal."""
    keys = [matched[name] for name in by] or [pd.Series(0, matched.index)]
    groups = matched["gain"].groupby(keys, observed=True)
    deviation = groups.std(ddof=1).to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = groups.mean().to_numpy(float) / deviation
    return np.where(deviation > 0, size, np.nan)
