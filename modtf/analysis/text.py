"""Numbers, lists and tables as text: one look for the whole project."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from tabulate import tabulate

Rows = Sequence[Sequence[Any]]


def text_table(header: Sequence[str], rows: Rows) -> str:
    """Columns apart by two spaces, the first to the left, the others to the right; a rule below the header.

    Args:
        header: names of the columns.
        rows: their cells, shown as `str` shows them.

    Example:
        >>> print(text_table(["variant", "loss"], [["modular", "0.012"]]))
        variant   loss
        --------------
        modular  0.012
    """
    text = tabulate(
        [[str(cell) for cell in row] for row in (header, *rows)],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["left", *["right"] * (len(header) - 1)],
    )
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def markdown_table(header: Sequence[str], rows: Rows, left: int = 1) -> str:
    """The same for a page in Markdown: columns no wider than what stands in them.

    Args:
        header, rows: as in `text_table`.
        left: so many columns to the left, the others to the right.

    Example:
        >>> print(markdown_table(["variant", "loss"], [["modular", "0.012"]]))
        | variant | loss |
        | --- | ---: |
        | modular | 0.012 |
    """
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (header, rule, *rows))


def listing(values: Sequence | pd.Series) -> str:
    """The distinct values, in order, as text."""
    return ", ".join(str(value) for value in pd.Series(values).drop_duplicates().sort_values())


def plural(count: int, word: str) -> str:
    """ "1 task", "2 tasks"."""
    return f"{count} {word}" + ("" if count == 1 else "s")
