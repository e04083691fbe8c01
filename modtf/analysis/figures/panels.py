"""A grid of panels with a title, a note that says what it stands on, and one legend."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from modtf.analysis.figures.style import GREY, colour, marker

# Inches.
RIGHT, GAP_X, GAP_Y = 0.2, 0.55, 0.5
TICKS, CHARACTER = 0.75, 0.085  # room for the ticks and name of an axis; of a bold letter
MIN_WIDTH = 7.2
LINE, TITLE, LEGEND, X_LABEL = 0.165, 0.36, 0.34, 0.5
CHARACTERS_PER_INCH = 17.8  # of the note's font


@dataclass(frozen=True)
class Grid:
    """Panels by (row, column) place."""

    figure: Figure
    axes: np.ndarray  # of Axes [rows, columns]

    def panel(self, row: int, column: int) -> Axes:
        axes = self.axes[row, column]
        assert isinstance(axes, Axes)
        return axes


def make_grid(
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    note: str,
    *,
    panel: tuple[float, float] = (2.5, 1.9),
    legend: bool = True,
    x_label: str = "",
    gaps: tuple[float, float] = (GAP_X, GAP_Y),
    left: float | None = None,
    right: float = RIGHT,
) -> Grid:
    """Panels of equal size, row labels on the left, column labels on top.

    Args:
        rows: label of every row.
        columns: label of every column.
        title: first line, bold.
        note: wrapped below the title.
        panel: width and height in inches; a narrow grid gets wider panels.
        legend: whether to leave room for one below.
        x_label: below the last row.
        gaps: between the panels, in inches.
        left: margin for the row labels, in inches; by default as their length needs.
        right: margin in inches.
    """
    gap_x, gap_y = gaps
    width = panel[0]
    if left is None:
        longest = max(len(line) for row in rows for line in [*row.split("\n"), ""])
        left = 0.12 + CHARACTER * longest + TICKS
    fixed = left + right + gap_x * (len(columns) - 1)
    if fixed + width * len(columns) < MIN_WIDTH:
        width = min((MIN_WIDTH - fixed) / len(columns), 2.2 * panel[0])
    total_width = max(MIN_WIDTH, fixed + width * len(columns))
    lines = textwrap.wrap(note, int((total_width - 0.3) * CHARACTERS_PER_INCH))
    top = (
        TITLE
        + LINE * len(lines)
        + 0.1
        + (0.07 + 0.18 * max(len(column.split("\n")) for column in columns) if any(columns) else 0.05)
    )
    bottom = 0.32 + (X_LABEL - 0.25 if x_label else 0.0) + (LEGEND if legend else 0.0)
    total_height = top + bottom + panel[1] * len(rows) + gap_y * (len(rows) - 1)
    figure = Figure(figsize=(total_width, total_height), dpi=100)
    figure.text(0.12 / total_width, 1 - 0.1 / total_height, title, weight="bold", size=12, va="top")
    figure.text(
        0.12 / total_width,
        1 - TITLE / total_height,
        "\n".join(lines),
        size=8,
        va="top",
        color=GREY,
        linespacing=1.25,
    )
    axes = np.empty((len(rows), len(columns)), dtype=object)
    for r, row in enumerate(rows):
        y = bottom + (len(rows) - 1 - r) * (panel[1] + gap_y)
        for c, column in enumerate(columns):
            x = left + c * (width + gap_x)
            box = (x / total_width, y / total_height, width / total_width, panel[1] / total_height)
            axes[r, c] = _style(figure.add_axes(box))
            if r == 0 and column:
                axes[r, c].set_title(column, size=9.5)
        place = (0.12 / total_width, (y + panel[1] / 2) / total_height)
        figure.text(*place, row, weight="bold", size=9, va="center", ha="left", linespacing=1.3)
    if x_label:
        centre = left + (len(columns) * (width + gap_x) - gap_x) / 2
        figure.text(
            centre / total_width, (bottom - X_LABEL) / total_height, x_label, size=9, ha="center", va="bottom"
        )
    return Grid(figure, axes)


def _style(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.grid(True, color="#E3E3E3", linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def add_legend(figure: Figure, variants: Sequence[str], bars: bool = False, markers: bool = True) -> None:
    """One legend for all panels, centred below them."""
    handles = [
        Line2D(
            [],
            [],
            color=colour(name, variants),
            marker="s" if bars else (marker(name, variants) if markers else ""),
            linestyle="none" if bars else ("--" if name == "random" else "-"),
            markersize=8 if bars else 5,
            label=name,
        )
        for name in variants
    ]
    figure.legend(
        handles=handles, loc="lower center", ncol=len(handles), frameon=False, fontsize=9, handlelength=2.2
    )


def powers_of_two(axes: Axes, values: Sequence[float]) -> None:
    """A base-2 axis whose ticks are the values themselves."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(values), [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(values) / 1.35, max(values) * 1.35)


def empty_panel(axes: Axes, words: str = "not run") -> None:
    """A panel without data says so."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#CCCCCC")
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", size=8.5, color=GREY)
