"""The loss of one variant as a multiple of another's: geometric means over tasks, with intervals."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from modtf.analysis.intervals import LEVEL, intervals
from modtf.analysis.pairs import ENDS, two_sided


def as_ratio(reduction: float) -> float:
    """Return first / second of two losses, given the reduction relative to the larger loss.

    Example:
        >>> as_ratio(0.2), as_ratio(-0.2)
        (0.8, 1.25)
    """
    if math.isnan(reduction) or reduction >= 0:
        return max(1 - reduction, 0.0)  # in this order NaN stays NaN
    return 1 / (1 + reduction) if reduction > -1 else math.inf


def mean_ratios(pairs: pd.DataFrame, by: Sequence[str] = (), level: float = LEVEL) -> pd.DataFrame:
    """Return the geometric mean of first / second, with its interval over tasks.

    Args:
        pairs: the table of `match_members`, with `value_first` and `value_second`.
        by: columns; each combination of their values becomes a row.
        level: of the interval.

    Returns:
        The columns of `by`, then those of `summarise`, and p (two-sided, of a ratio of 1). Pairs without a
        finite logarithm are left out and counted in num_missing.
    """
    table, ends = intervals(pairs.assign(log=log_ratios(pairs)), by, "log", level), list(ENDS.values())
    return table.assign(p=two_sided(table, level, columns=ends), **np.exp(table[ends]))


def ratios_to(
    first: pd.DataFrame,
    second: pd.DataFrame,
    by: Sequence[str] = (),
    on: Sequence[str] = (),
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return `mean_ratios` of the values of two tables on the same tasks and seeds.

    Args:
        first, second: tables with `data_seed`, `seed` and `value`.
        by: columns of `first`; each combination of their values becomes a row.
        on: further columns in which both agree.
        level: of the interval.
    """
    key = ["data_seed", "seed", *on]
    columns = list(dict.fromkeys([*by, *key, "value"]))
    pairs = first[columns].merge(second[[*key, "value"]], on=key, suffixes=("_first", "_second"))
    return mean_ratios(pairs, by, level)


def log_ratios(pairs: pd.DataFrame) -> pd.Series:
    """Return log(first / second) of the pairs in a table of `match_members`; NaN unless both are above 0."""
    positive = (pairs[["value_first", "value_second"]] > 0).all(axis=1)
    return np.log((pairs["value_first"] / pairs["value_second"]).where(positive))
