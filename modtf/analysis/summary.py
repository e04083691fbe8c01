"""Means with intervals, refusing to average over what was not named."""

from collections.abc import Sequence

import pandas as pd

from modtf.analysis.intervals import LEVEL, intervals
from modtf.checks import check_choice, check_names, check_number
from modtf.results.schema import CELL, SCORE

# What two models of one mean must share, unless it is named in `over`.
IDENTITY = (*CELL, *SCORE, "step", "protocol", "distribution")


def summarise(
    frame: pd.DataFrame,
    by: Sequence[str] = (*CELL, *SCORE),
    over: Sequence[str] = (),
    *,
    value: str = "value",
    level: float = LEVEL,
) -> pd.DataFrame:
    """Mean and interval over data seeds: all models of a data seed are averaged first.

    Args:
        frame: as `Study.results`, `load_results` or `load_history` gives it, or a part of it.
        by: columns; each combination of their values becomes a row.
        over: columns of a cell or a score to average over on purpose, for example ["num_rules"].
        value: the column to average.
        level: of Student's t interval.

    Returns:
        The columns of `by`, then mean, low, high, num_tasks, num_models, num_missing. low and high are
        NaN for one data seed: nothing is known of others then.

    Raises:
        ValueError: if a column is unknown or its values are no numbers, or a row would average over different
            settings, widths, conditions, protocols or the like that `over` does not name.

    Example:
        >>> rows = frame.query("measure == 'alignment' and checkpoint == 'tail'")  # doctest: +SKIP
        >>> summarise(rows, by=["arch", "setting", "num_rules", "width", "variant"])  # doctest: +SKIP
    """
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"frame={frame!r} is no table; expected what modtf.load_results gives.")
    by, over = list(check_names("by", by)), list(check_names("over", over))
    check_number("level", level, 0.0, 1.0)
    check_choice("value", value, frame)
    if unknown := [name for name in (*by, *over) if name not in frame]:
        raise ValueError(f"The table has no column {unknown[0]!r}; it has {', '.join(map(str, frame))}.")
    if value in by:
        raise ValueError(
            f"A mean of {value!r} was asked for, for every value of {value!r}. Take it out of by."
        )
    if not pd.api.types.is_any_real_numeric_dtype(frame[value]):
        raise ValueError(f"The column {value!r} holds no numbers; a mean of it was asked for.")
    try:
        refuse_mixtures(frame, by, over)
        return intervals(frame, by, value, level)
    except TypeError as error:
        raise ValueError(f"A column holds lists or such ({error}); expected names or numbers.") from error


def refuse_mixtures(frame: pd.DataFrame, by: Sequence[str], over: Sequence[str]) -> None:
    """Raises `ValueError` if rows that agree in `by` differ in a column of `IDENTITY` not in `over`."""
    checked = [name for name in IDENTITY if name in frame and name not in (*by, *over)]
    for name in (name for name in checked if frame[name].nunique(dropna=False) > 1):
        pairs = frame[[*by, name]].drop_duplicates()
        mixed = pairs[pairs.duplicated(list(by), keep=False)] if by else pairs
        if len(mixed):
            found = ", ".join(map(str, pd.unique(mixed[name])[:5]))
            raise ValueError(
                f"A mean over different values of {name!r} ({found}) was asked for. Choose one of them, add "
                f"{name!r} to by, or, to average over it on purpose, to over."
            )
