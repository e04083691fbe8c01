"""Numbers, lists and tables as text: one look for the whole project."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from tabulate import tabulate

from modtf.base.words import in_a_row as in_a_row
from modtf.base.words import plural as plural

Rows = Sequence[Sequence[Any]]
WIDEST = 140  # characters of a printed table


def percent_of(level: float) -> str:
    """Return a level of confidence as a percentage, without rounding it up to 100%.

    Example:
        >>> percent_of(0.95), percent_of(0.999)
        ('95%', '99.9%')
    """
    return f"{100 * level:g}%"


def text_table(header: Sequence[str], rows: Rows) -> str:
    """Return a plain text table: columns two spaces apart, a rule below the header.

    The first column is aligned to the left, the others to the right. Column names may have several lines. A
    table that is wider than `WIDEST` is folded: later columns follow below, with the first column repeated.

    Example:
        >>> print(text_table(["variant", "loss"], [["modular", "0.012"]]))
        variant   loss
        --------------
        modular  0.012
    """
    number = next(n for n in range(len(header), 0, -1) if n < 3 or _width(header, rows, n) <= WIDEST)
    if number < len(header):
        first = text_table(header[:number], [row[:number] for row in rows])
        head, *later = ([row[0], *row[number:]] for row in (header, *rows))
        return f"{first}\n\n{text_table(head, later)}"
    text = tabulate(
        [[str(cell) for cell in row] for row in (header, *rows)],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["left", *["right"] * (len(header) - 1)],
    )
    lines, top = [line.rstrip() for line in text.splitlines()], 1 + max(name.count("\n") for name in header)
    return "\n".join([*lines[:top], "-" * max(map(len, lines)), *lines[top:]])


def _width(header: Sequence[str], rows: Rows, number: int) -> int:
    """Return the width of the first columns of a text table."""
    columns = list(zip(header, *rows, strict=True))[:number]
    return 2 * (number - 1) + sum(
        max(len(line) for cell in column for line in str(cell).split("\n")) for column in columns
    )


def markdown_table(header: Sequence[str], rows: Rows, left: int = 1) -> str:
    """Return a table in Markdown: the first `left` columns aligned to the left, the others to the right.

    Example:
        >>> print(markdown_table(["variant", "loss"], [["modular", "0.012"]]))
        | variant | loss |
        | --- | ---: |
        | modular | 0.012 |
    """
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    lines = (f"| {' | '.join(map(str, row))} |" for row in (header, rule, *rows))
    return "\n".join(line.replace("\n", ", ") for line in lines)


def span(numbers: pd.Series, word: str) -> str:
    """Return the smallest and the largest of some counts: "5 tasks", "3 to 5 tasks"."""
    least, most = numbers.min(), numbers.max()
    return plural(most, word) if least == most else f"{least:,} to {most:,} {word}s"


def listing(values: Sequence | pd.Series) -> str:
    """Return the distinct values, in order, as text."""
    return ", ".join(str(value) for value in pd.Series(values).drop_duplicates().sort_values())


def interval_words(mean: Mapping[str, Any] | pd.Series, level: float, of: str = "") -> str:
    """Return the interval of a mean and its number of tasks in brackets, with `of` as the first word.

    Args:
        mean: low, high and num_tasks, for example a row of `summarise`.

    Example:
        >>> interval_words({"low": 0.24, "high": 0.31, "num_tasks": 5}, 0.95)
        '(95% CI 0.24 to 0.31, 5 tasks)'
    """
    tasks = plural(int(mean["num_tasks"]), "task")
    known = mean["low"] == mean["low"]
    interval = f"{percent_of(level)} CI {short_number(mean['low'])} to {short_number(mean['high'])}"
    interval = interval if known else "no interval"
    return f"({', '.join([*([of] if of else []), interval, tasks])})"


def with_interval(value: Any, low: Any, high: Any, form: str = "") -> str:
    """Return a number with its interval, in a format; by default with two decimals, or as `short_number` does
    if all of the interval is positive, as that of a ratio.

    Example:
        >>> with_interval(0.2, -0.1, 0.25), with_interval(0.0163, 0.0083, 0.0321)
        ('0.20 (-0.10 to 0.25)', '0.016 (0.0083 to 0.032)')
    """
    if not form and low > 0:
        value, low, high = map(short_number, (value, low, high))
    else:
        value, low, high = (f"{one:{form or '.2f'}}" for one in (value, low, high))
    return f"{value} ({low} to {high})"


def short_number(value: float) -> str:
    """Return a number with two decimals, with fewer if it is large, with two significant digits if small.

    Example:
        >>> short_number(1.234), short_number(0.01234), short_number(76.22), short_number(262.3)
        ('1.23', '0.012', '76.2', '262')
    """
    if abs(value) >= 10:
        return f"{value:.{1 if abs(value) < 100 else 0}f}"
    return f"{value:.2f}" if value == 0 or abs(value) >= 0.1 else f"{value:.2g}"
