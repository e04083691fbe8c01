"""The hierarchical bootstrap: tasks are drawn anew, then the seeds within every task drawn."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.results.schema import MEMBER, TASK

CHUNK = 2000  # groups whose resampled means are held in memory at once


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are computed.

    Raises:
        ValueError: if there is no resample, or the level is not between 0 and 1.
    """

    resamples: int = 1000
    seed: int = 0  # of the resampling; the same table gives the same intervals
    level: float = 0.95  # of the interval between two percentiles of the resampled means

    def __post_init__(self) -> None:
        if self.resamples < 1 or not 0 < self.level < 1:
            raise ValueError(
                f"Expected 1 or more resamples and 0 < level < 1; got {self.resamples} and {self.level}."
            )

    @property
    def quantiles(self) -> tuple[float, float]:
        return (1 - self.level) / 2, (1 + self.level) / 2


@lru_cache(maxsize=8)
def bootstrap_weights(counts: tuple[int, ...], resamples: int, seed: int) -> NDArray[np.float64]:
    """The weight of every value in every resampled mean.

    A resample draws as many tasks as there are, with replacement; a task drawn draws as many of its own
    values as it has, with replacement; the mean of the task means is the resampled mean. Being linear, it is
    a row of weights, so that many tables of the same shape share them.

    Args:
        counts: number of values of each task `[T]`.
        resamples: B.
        seed: of the resampling.

    Returns:
        `[B, sum(counts)]`, read-only; rows sum to 1.
    """
    rng = np.random.default_rng(seed)
    sizes = np.array(counts)
    starts = np.cumsum(sizes) - sizes
    tasks = rng.integers(len(sizes), size=(resamples, len(sizes)))
    size = sizes[tasks][..., np.newaxis]  # [B, T, 1]
    draws = (rng.random((*tasks.shape, sizes.max())) * size).astype(np.int64)  # [B, T, S]
    used = np.arange(sizes.max()) < size
    columns = starts[tasks][..., np.newaxis] + draws
    flat = columns + (np.arange(resamples) * sizes.sum())[:, np.newaxis, np.newaxis]
    weight = np.broadcast_to(1.0 / (size * len(sizes)), used.shape)
    total = int(resamples * sizes.sum())
    sums = np.bincount(flat[used], weights=weight[used], minlength=total)
    weights = sums.astype(np.float64).reshape(resamples, -1)
    weights.setflags(write=False)
    return weights


def intervals(
    frame: pd.DataFrame,
    by: Sequence[str],
    value: str = "value",
    task: Sequence[str] = TASK,
    bootstrap: Bootstrap = Bootstrap(),
) -> pd.DataFrame:
    """The mean of `value` for every combination of `by`, with a bootstrap interval.

    Every task has the same weight, whatever its number of values. With one task the interval speaks of seeds
    alone; with a single value there is none (NaN).

    Returns:
        The columns of `by`, then mean, low, high, num_tasks, num_models (values used) and num_missing (values
        left out because they are not finite, such as the loss of a model that diverged).
    """
    by = list(by)
    clusters = [name for name in task if name not in by and name in frame]
    order = list(dict.fromkeys([*by, *clusters, *(name for name in MEMBER if name in frame)]))
    frame = frame.sort_values(order, kind="stable") if order else frame  # the order of rows means nothing
    groups = frame.groupby(by, dropna=False, sort=True).ngroup() if by else pd.Series(0, frame.index)
    heads = frame.loc[~groups.duplicated(), by].reset_index(drop=True)
    finite = np.isfinite(frame[value].to_numpy(float))
    num_missing = np.bincount(groups[~finite], minlength=len(heads))
    kept = frame[finite]
    group = groups[finite].to_numpy()
    cluster = (
        kept.groupby(clusters, dropna=False).ngroup().to_numpy() if clusters else np.zeros(len(kept), int)
    )
    statistics = np.full((len(heads), 5), np.nan)
    statistics[:, 3:] = 0
    values = kept[value].to_numpy(float)
    shapes: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for index, start, end in _runs(group):
        counts = tuple(stop - begin for _, begin, stop in _runs(cluster[start:end]))
        shapes[counts].append((index, start))
    for counts, members in shapes.items():
        for chunk in (members[i : i + CHUNK] for i in range(0, len(members), CHUNK)):
            rows = np.array([index for index, _ in chunk])
            table = np.stack([values[start : start + sum(counts)] for _, start in chunk])
            statistics[rows] = _statistics(table, counts, bootstrap)
    names = ["mean", "low", "high", "num_tasks", "num_models"]
    summary = heads.assign(**dict(zip(names, statistics.T, strict=True)), num_missing=num_missing)
    return summary.astype({"num_tasks": int, "num_models": int})


def _statistics(
    table: NDArray[np.float64], counts: tuple[int, ...], bootstrap: Bootstrap
) -> NDArray[np.float64]:
    """mean, low, high, number of tasks and of values of every row of `table [G, sum(counts)]`."""
    result = np.empty((len(table), 5))
    result[:, 0] = table @ np.repeat([1.0 / (n * len(counts)) for n in counts], counts)
    result[:, 1:3] = np.nan
    if sum(counts) > 1:
        means = table @ bootstrap_weights(counts, bootstrap.resamples, bootstrap.seed).T
        result[:, 1:3] = np.quantile(means, bootstrap.quantiles, axis=1).T
    result[:, 3:] = len(counts), sum(counts)
    return result


def _runs(labels: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """(label, start, end) of every run of equal labels."""
    if not labels.size:
        return []
    edges = np.flatnonzero(np.diff(labels)) + 1
    starts, ends = np.r_[0, edges], np.r_[edges, labels.size]
    return [(int(labels[s]), int(s), int(e)) for s, e in zip(starts, ends, strict=True)]
