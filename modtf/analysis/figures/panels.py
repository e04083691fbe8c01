"""A picture of equal panels: a title, a note, labelled rows and columns, one legend for all."""

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from modtf.analysis.figures.base import Picture
from modtf.analysis.figures.style import GREY, Look, looks

Mark = Callable[[Axes, pd.DataFrame, Mapping[str, Look]], None]

STYLE = seaborn.axes_style("whitegrid") | seaborn.plotting_context("paper")
STYLE |= {
    "grid.color": "#E3E3E3",
    "axes.edgecolor": "#999999",
    "xtick.bottom": True,
    "xtick.color": "#999999",
}
STYLE |= {"xtick.labelcolor": "black", "ytick.labelcolor": "black", "axes.labelcolor": "black"}
NUMBERS = {"num_rules": "R", "num_modules": "M"}  # what a reader calls columns
CHARACTERS = 16  # of the note, per inch


def panels(
    mark: Mark,
    table: pd.DataFrame,
    *,
    name: str,
    title: str,
    note: str,
    row: str | None = None,
    column: str | None = None,
    size: tuple[float, float] = (2.4, 1.75),
    x_label: str = "",
) -> Picture:
    """Draws every part of a table in a panel of its own.

    Args:
        mark: `mark(axes, part, looks)` draws one panel; `modtf.analysis.figures.marks` makes some. What it
            labels with the name of a variant stands in the legend.
        table: what is drawn, long; the looks of the variants follow from its column `variant`.
        name, title, note: of the picture; the note also stands in it, below the title.
        row, column: columns of the table; panels stand in the order of their values, texts in that of
            the table; one without rows says "not run". None for a single row or column. What follows
            ": " in a value gets a line of its own.
        size: of a panel with its ticks, in inches (width, height).
        x_label: below the last row.
    """
    rows, columns = _values(table, row), _values(table, column)
    width = max(7.0, size[0] * len(columns) + (1.2 if row else 0.3))
    look = looks(table["variant"]) if "variant" in table else {}
    text = textwrap.wrap(note, int(width * CHARACTERS))
    lines = len(text) + 3 + len("".join(look)) // int(8 * width)
    figure = Figure(figsize=(width, size[1] * len(rows) + 0.17 * lines + 0.8), dpi=100)
    figure.set_layout_engine("constrained", w_pad=0.07, h_pad=0.07)
    figure.suptitle(title, x=0.1 / width, ha="left", weight="bold", size=12)
    body = figure.subfigures(1, 1)  # constrained layout has room for one title in each
    body.suptitle("\n".join(text), x=0.1 / width, ha="left", size=8, color=GREY)
    with matplotlib.rc_context(STYLE):
        axes = body.subplots(len(rows), len(columns), squeeze=False)
    for place, value in enumerate(rows):
        of_row = table if row is None else table[table[row] == value]
        for where, other in enumerate(columns):
            part = of_row if column is None else of_row[of_row[column] == other]
            panel = axes[place, where]
            if part.empty:
                not_run(panel)
            else:
                mark(panel, part, look)
            if place == 0 and column is not None:
                panel.set_title(_wrapped(column, other, 10.5 * size[0]), size=9.5)
        if row is not None:
            axes[place, 0].set_ylabel(
                _wrapped(row, value, 14), rotation=0, ha="right", va="center", weight="bold"
            )
    for panel in axes[-1] if x_label else ():
        panel.set_xlabel(x_label)
    body.align_ylabels(axes[:, 0])
    seaborn.despine(fig=body, left=True)
    _legend(body, look)
    return Picture(name, title, note, figure, table)


def _values(table: pd.DataFrame, column: str | None) -> list[Any]:
    if column is None:
        return [None]
    values = table[column].drop_duplicates()
    return list(values if pd.api.types.is_string_dtype(values) else values.sort_values())


def _wrapped(column: str, value: object, characters: float) -> str:
    """A label in lines: what stands behind a colon in one of its own; a number says of what."""
    text = value if isinstance(value, str) else f"{NUMBERS.get(column, column)} = {value}"
    return "\n".join(
        textwrap.fill(part, int(characters), break_long_words=False) for part in text.split(": ")
    )


def _legend(body: SubFigure, looks: Mapping[str, Look]) -> None:
    """What the panels labelled, once, in the order of the variants."""
    found = {}
    for axes in body.axes:
        handles, labels = axes.get_legend_handles_labels()
        found.update(zip(labels, handles, strict=True))
    names = [name for name in looks if name in found]
    if names:
        handles = [found[name] for name in names]
        across = int(10 * body.figure.get_figwidth() / (max(map(len, names)) + 6))
        style = {"frameon": False, "fontsize": 9, "ncols": min(len(names), max(across, 1))}
        body.legend(handles, names, loc="outside lower center", **style)


def not_run(axes: Axes, words: str = "not run") -> None:
    """An empty panel says why."""
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", size=8.5, color=GREY)
