"""Means with intervals over data seeds, the sample of a study. It averages only over named columns.

A data seed draws the rules of a task, from the same random numbers for any R, setting, family and width.
Models that share a data seed are therefore not independent. So each data seed is averaged first. Then one
Student's t interval is taken over the data seeds. docs/statistics.md reports how often the interval contains
the true value.
"""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from modtf.base.checks import check_choice, check_level, check_names
from modtf.results.schema import CELL, SCORE

LEVEL = 0.95
UNIT = "data_seed"
MIN_TASKS = 3  # an interval from fewer tasks is meaningless
STATISTICS = ("mean", "low", "high", "num_tasks", "num_models", "num_missing")
#: each value of these has the same weight within a data seed, however many seeds are behind it
FACTORS = (*CELL, *SCORE, "step", "distribution")
WEIGHTS = "sizes or task types have different tasks; a mean gives every task the same weight, not every size"
#: models in one mean must agree in these, except for columns named in `over`
IDENTITY = (*CELL, *SCORE, "step", "protocol", "distribution")


def t_interval(
    mean: ArrayLike, deviation: ArrayLike, count: ArrayLike, level: float = LEVEL
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Student's t interval of a mean.

    Args:
        mean, deviation, count: of the sample, arrays of one shape; the deviation divides by n - 1.

    Returns:
        low, high; NaN for fewer than two values.

    Example:
        >>> [round(float(x), 2) for x in t_interval(2.0, 1.0, 3)]
        [-0.48, 4.48]
    """
    mean, deviation, count = (np.asarray(x, np.float64) for x in (mean, deviation, count))
    freedom = np.where(count > 1, count - 1, np.nan)
    half = stats.t.ppf((1 + level) / 2, freedom) * deviation / np.sqrt(np.maximum(count, 1))
    return mean - half, mean + half


def data_seed_means(frame: pd.DataFrame, by: Sequence[str] = (), value: str = "value") -> pd.DataFrame:
    """Return the sample: one `value` per combination of `by` and data seed.

    It averages over seeds first, then over the rest. Values that are not finite are left out, such as the
    loss of a model that diverged.
    """
    by = list(by)
    keys = [*by, UNIT] if UNIT not in by else by
    finite = np.isfinite(frame[value].to_numpy(np.float64))
    frame = frame if finite.all() else frame[finite]
    factors = [name for name in FACTORS if name in frame and name not in keys and varies(frame[name])]
    means = frame.groupby([*keys, *factors], observed=True, dropna=False)[value].mean()
    if factors:
        means = means.groupby(keys, observed=True).mean()
    return means.reset_index()


def varies(column: pd.Series) -> bool:
    """Return whether a column has several values; `nunique` takes ten times as long."""
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    values = column.cat.codes.to_numpy() if is_category else column.to_numpy()
    return bool((values[1:] != values[:-1]).any())


def intervals(
    frame: pd.DataFrame, by: Sequence[str], value: str = "value", level: float = LEVEL
) -> pd.DataFrame:
    """Return the mean of `value` for every combination of `by`, with its interval over data seeds.

    All other columns of a cell are averaged; their combinations have the same weight within a data seed.
    Every data seed has the same weight, even if it has only some of the combinations.

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
    summary = counts.join(sample.agg(mean="mean", deviation="std", number="size"))
    number = summary["number"].fillna(0).astype(int)
    low, high = t_interval(summary["mean"], summary["deviation"], number, level)
    models = summary["sum"].astype(int)
    columns = (summary["mean"], low, high, number, models, summary["size"] - models)
    table = pd.DataFrame(dict(zip(STATISTICS, columns, strict=True)), summary.index).reset_index()
    return table[[*by, *STATISTICS]]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values after Holm's correction: the smallest times their number, the next times one fewer, ...

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


def summarise(
    frame: pd.DataFrame,
    by: Sequence[str] = (*CELL, *SCORE),
    over: Sequence[str] = (),
    *,
    value: str = "value",
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return mean and interval over data seeds. All models of a data seed are averaged first.

    If values of `over` have different data seeds, the mean gives every data seed the same weight, not every
    value, and a warning says so. Add the column to `by` then, or keep the data seeds that all values have.

    Args:
        frame: `Study.results`, the table of `load_results` or `load_history`, or a part of one.
        by: columns; each combination of their values becomes a row.
        over: columns of a cell or a score to average over on purpose, for example ["num_rules"].
        value: the column to average.
        level: of Student's t interval.

    Returns:
        The columns of `by`, then mean, low, high, num_tasks, num_models, num_missing. low and high are
        NaN for one data seed, which says nothing about other tasks.

    Raises:
        ValueError: if a column is unknown, not numeric or, in `by`, lacks values; or if a row would average
            over different settings, widths, conditions, protocols or similar columns that `over` does not
            name.

    Example:
        >>> rows = frame.query("measure == 'alignment' and checkpoint == 'tail'")  # doctest: +SKIP
        >>> summarise(rows, by=["arch", "setting", "num_rules", "width", "variant"])  # doctest: +SKIP
    """
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"frame={frame!r} is not valid; expected a table, as modtf.load_results returns.")
    by, over = list(check_names("by", by)), list(check_names("over", over))
    check_level(level)
    check_choice("value", value, frame)
    if unknown := [name for name in (*by, *over) if name not in frame]:
        raise ValueError(f"The table has no column {unknown[0]!r}; it has {', '.join(map(str, frame))}.")
    if value in by:
        raise ValueError(f"by holds {value!r}, the column to average. Leave it out of by.")
    for name in (name for name in by if frame[name].isna().any()):
        raise ValueError(
            f"{name!r} in by has no value in {frame[name].isna().sum():,} of {len(frame):,} rows; expected a "
            "value in every row. Fill it in, or leave these rows out."
        )
    if not pd.api.types.is_any_real_numeric_dtype(frame[value]):
        raise ValueError(f"The column {value!r} holds no numbers; expected a column of numbers to average.")
    try:
        refuse_mixtures(frame, by, over)
        warn_of_weights(frame, by, over)
        return intervals(frame, by, value, level)
    except TypeError as error:
        raise ValueError(
            f"A column holds values such as lists ({error}); expected names or numbers."
        ) from error


def have_other_tasks(frame: pd.DataFrame, by: Sequence[str], over: Sequence[str]) -> bool:
    """Return whether rows that agree in `by` have different data seeds for different values of `over`."""
    rows, of_all = frame.assign(_all=0), ["_all", *by]
    every, of_value = (
        rows.groupby(keys, observed=True, dropna=False)[UNIT].transform("nunique")
        for keys in (of_all, [*of_all, *over])
    )
    return bool((every != of_value).any())


def warn_of_weights(frame: pd.DataFrame, by: Sequence[str], over: Sequence[str]) -> None:
    """Warn if means are over values of `over` that have different data seeds."""
    if over and have_other_tasks(frame, by, over):
        warnings.warn(f"In means over {', '.join(over)}, {WEIGHTS}.", stacklevel=3)


def refuse_mixtures(frame: pd.DataFrame, by: Sequence[str], over: Sequence[str]) -> None:
    """Raise `ValueError` if rows that agree in `by` differ in a column of `IDENTITY` not in `over`."""
    checked = [name for name in IDENTITY if name in frame and name not in (*by, *over)]
    for name in (name for name in checked if frame[name].nunique(dropna=False) > 1):
        pairs = frame[[*by, name]].drop_duplicates()
        mixed = pairs[pairs.duplicated(list(by), keep=False)] if by else pairs
        if len(mixed):
            values = ", ".join(map(str, pd.unique(mixed[name])[:5]))
            raise ValueError(
                f"The rows hold different values of {name!r} ({values}), which would be averaged. Choose "
                f"one value, add {name!r} to by, or add it to over to average on purpose."
            )
