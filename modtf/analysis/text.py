"""Numbers, lists and tables as text: one look for the whole project."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from tabulate import tabulate

from modtf.words import plural as plural

Rows = Sequence[Sequence[Any]]


def text_table(header: Sequence[str], rows: Rows) -> str:
    """Columns apart by two spaces, the first to the left, the others to the right; a rule below the header.

    Names of columns may have several lines.

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
    lines, top = [line.rstrip() for line in text.splitlines()], 1 + max(name.count("\n") for name in header)
    return "\n".join([*lines[:top], "-" * max(map(len, lines)), *lines[top:]])


def markdown_table(header: Sequence[str], rows: Rows, left: int = 1) -> str:
    """Return a table in Markdown, `left` columns aligned to the left, the others to the right.

    Example:
        >>> print(markdown_table(["variant", "loss"], [["modular", "0.012"]]))
        | variant | loss |
        | --- | ---: |
        | modular | 0.012 |
    """
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    lines = (f"| {' | '.join(map(str, row))} |" for row in (header, rule, *rows))
    return "\n".join(line.replace("\n", ", ") for line in lines)


def listing(values: Sequence | pd.Series) -> str:
    """Return the distinct values, in order, as text."""
    return ", ".join(str(value) for value in pd.Series(values).drop_duplicates().sort_values())
