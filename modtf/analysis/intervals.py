"""Means with intervals over data seeds, the sample of a study.

A data seed draws the rules of a task, from the same random numbers whatever the number of rules, setting,
family and width: models that share it are no independent evidence. So everything is averaged within a data
seed first; then one Student's t interval is taken over the data seeds. docs/statistics.md says how often it
is right.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from modtf.results.schema import CELL, SCORE

LEVEL = 0.95
UNIT = "data_seed"
MIN_TASKS = 3  # with fewer, no interval means anything
STATISTICS = ("mean", "low", "high", "num_tasks", "num_models", "num_missing")
#: what a mean within a data seed weighs alike, whatever the number of seeds behind each of its values
FACTORS = (*CELL, *SCORE, "step", "distribution")


def t_interval(
    mean: ArrayLike, deviation: ArrayLike, count: ArrayLike, level: float = LEVEL
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Student's t interval of a mean.

    Args:
        mean, deviation, count: of the sample, arrays of one shape; the deviation with n - 1.

    Returns:
        low, high; NaN where there is one value or none.

    Example:
        >>> [round(float(x), 2) for x in t_interval(2.0, 1.0, 3)]
        [-0.48, 4.48]
    """
    mean, deviation, count = (np.asarray(x, np.float64) for x in (mean, deviation, count))
    freedom = np.where(count > 1, count - 1, np.nan)
    half = stats.t.ppf((1 + level) / 2, freedom) * deviation / np.sqrt(np.maximum(count, 1))
    return mean - half, mean + half


def data_seed_means(frame: pd.DataFrame, by: Sequence[str] = (), value: str = "value") -> pd.DataFrame:
    """The sample: a `value` per combination of `by` and data seed, over seeds first, then over all else.

    Values that are not finite, such as the loss of a model that diverged, are left out.
    """
    by = list(by)
    frame = frame[np.isfinite(frame[value].to_numpy(np.float64))]
    keys = [*by, UNIT] if UNIT not in by else by
    factors = [name for name in FACTORS if name in frame and name not in keys]
    factors = [name for name in factors if frame[name].nunique() > 1]
    means = frame.groupby([*keys, *factors], observed=True, dropna=False)[value].mean()
    if factors:
        means = means.groupby(keys, observed=True).mean()
    return means.reset_index()


def intervals(
    frame: pd.DataFrame, by: Sequence[str], value: str = "value", level: float = LEVEL
) -> pd.DataFrame:
    """The mean of `value` for every combination of `by`, with its interval over data seeds.

    All other columns of a cell are averaged over, their combinations weighing the same within a data seed.

    Returns:
        The columns of `by`, then mean, low, high, num_tasks (data seeds), num_models (values used)
        and num_missing (values left out because they are not finite). low and high are NaN for one data seed.
    """
    by = list(by)
    keyed = frame if by else frame.assign(_all=0)
    keys = by or ["_all"]
    finite = np.isfinite(keyed[value].to_numpy(np.float64))
    counts = keyed.assign(_finite=finite).groupby(keys, observed=True)["_finite"].agg(["sum", "size"])
    sample = data_seed_means(keyed, keys, value).groupby(keys, observed=True)[value]
    found = counts.join(sample.agg(mean="mean", deviation="std", number="size"))
    number = found["number"].fillna(0).astype(int)
    low, high = t_interval(found["mean"], found["deviation"], number, level)
    models = found["sum"].astype(int)
    columns = (found["mean"], low, high, number, models, found["size"] - models)
    table = pd.DataFrame(dict(zip(STATISTICS, columns, strict=True)), found.index).reset_index()
    return table[[*by, *STATISTICS]]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for many looks: the smallest p times their number, the next times one fewer, ...

    NaN stays NaN.

    Example:
        >>> holm([0.01, 0.04, 0.02])
        [0.03, 0.04, 0.04]
    """
    order = sorted((i for i, p in enumerate(p_values) if p == p), key=lambda i: p_values[i])
    corrected, largest = [float("nan")] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
