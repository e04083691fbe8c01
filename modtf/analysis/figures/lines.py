"""Lines of a summary, one per variant, in a grid of panels."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, NullFormatter

from modtf.analysis.figures.panels import Grid, empty_panel, powers_of_two
from modtf.analysis.figures.style import colour, marker

LOG_FROM = 12.0  # a loss that spans more than this factor is drawn on a logarithmic axis
SPREAD = 0.05  # variants stand this far apart, in powers of two, so that their intervals can be seen

YAxis = Callable[[Axes, pd.DataFrame], None]


def draw_lines(
    grid: Grid,
    summary: pd.DataFrame,
    rows: tuple[str, Sequence[object]],
    columns: tuple[str, Sequence[object]],
    x: str,
    variants: Sequence[str],
    y_axis: YAxis,
    random: pd.DataFrame | None = None,
) -> None:
    """Fills a grid: in each panel the mean and interval of every variant against `x`.

    Args:
        grid: from `make_grid`.
        summary: mean, low, high by variant, `x`, and the columns that choose a row and a column.
        rows, columns: the column of `summary`, and the value of every row or column of the grid.
        x: column on the horizontal axis, drawn in powers of two.
        variants: all those in the figure.
        y_axis: sets up the vertical axis for the data of a panel.
        random: `x`, value and the column that chooses a column: the baseline.
    """
    ticks = sorted(summary[x].unique())
    for r, row in enumerate(rows[1]):
        for c, column in enumerate(columns[1]):
            axes = grid.panel(r, c)
            data = summary[(summary[rows[0]] == row) & (summary[columns[0]] == column)]
            if data["mean"].notna().sum() == 0:
                empty_panel(axes)
                continue
            if random is not None:
                shown = random[(random[columns[0]] == column) & random[x].isin(data[x])].sort_values(x)
                dash = "--" if len(shown) > 1 else "none"
                axes.plot(
                    shown[x],
                    shown["value"],
                    color=colour("random", []),
                    linestyle=dash,
                    marker="_",
                    zorder=3,
                )
            _variants(axes, data, x, variants)
            powers_of_two(axes, ticks)
            y_axis(axes, data)


def _variants(axes: Axes, data: pd.DataFrame, x: str, variants: Sequence[str]) -> None:
    for place, name in enumerate(variants):
        line = data[data["variant"] == name].sort_values(x)
        if line.empty:
            continue
        shifted = line[x].astype(float) * 2 ** (SPREAD * (place - (len(variants) - 1) / 2))
        below = (line["mean"] - line["low"]).fillna(0).clip(lower=0)
        above = (line["high"] - line["mean"]).fillna(0).clip(lower=0)
        axes.errorbar(
            shifted.to_numpy(float),
            line["mean"].to_numpy(float),
            yerr=np.stack([below, above]),
            color=colour(name, variants),
            marker=marker(name, variants),
            markersize=4,
            linewidth=1.4,
            elinewidth=1.0,
            capsize=2,
        )


def performance_axis(axes: Axes, data: pd.DataFrame) -> None:
    """From zero, or logarithmic where the means span orders of magnitude."""
    means = data["mean"].dropna()
    if (means > 0).all() and means.max() > LOG_FROM * means.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)


def bounded_axis(low: float, high: float) -> YAxis:
    """The whole range of a measure, with room for markers on its edges."""

    def set_limits(axes: Axes, data: pd.DataFrame) -> None:
        margin = 0.04 * (high - low)
        axes.set_ylim(low - margin, high + margin)

    return set_limits
