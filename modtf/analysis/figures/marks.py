"""The marks in a panel: lines with intervals, curves with bands, bars, dots beside names."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from modtf.analysis.figures.layout import MOST_SERIES, Look
from modtf.metrics import MEASURES

LOG_FROM = 12.0  # a larger ratio of largest to smallest value gets a logarithmic axis
UNSEEN = 0.005  # the height, as a share of the axis, below which a bar cannot be seen
SPREAD = 0.05  # horizontal offset between variants, in powers of two, so that intervals do not overlap
X_LABELS = {"num_rules": "Number of rules R", "step": "Steps"}
SMALL: dict[str, Any] = {"markersize": 4.5, "capsize": 2, "elinewidth": 1.0}


def lines(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], x: str) -> None:
    """Draw mean and interval of every variant against `x`, in powers of two."""
    values = sorted(data[x].unique())
    for place, (name, look, line) in enumerate(by_variant(data, looks, x)):
        shift = 2.0 ** (SPREAD * (place - (data["variant"].nunique() - 1) / 2))
        joined(axes, name, look, line[x] * shift, line)
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(values[0] / 1.35, values[-1] * 1.35)
    _axes(axes, data, x)


def joined(axes: Axes, name: str, look: Look, x: pd.Series, line: pd.DataFrame, **style: Any) -> None:
    """Draw means with intervals at the positions `x`, and a line through them."""
    drawn = {"color": look.colour, "marker": look.marker, "linestyle": look.line, "linewidth": 1.4, **SMALL}
    axes.errorbar(x, line["mean"], yerr=whiskers(line), label=name, **(drawn | style))


def curves(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], x: str) -> None:
    """Draw the mean of every variant against `x`, with its interval as a band."""
    for name, look, line in by_variant(data, looks, x):
        marker = look.marker if len(line) == 1 else ""
        axes.plot(
            line[x], line["mean"], look.line, label=name, color=look.colour, marker=marker, linewidth=1.4
        )
        axes.fill_between(line[x], line["low"], line["high"], color=look.colour, alpha=0.18, linewidth=0)
    axes.xaxis.set_major_formatter(lambda v, _: f"{v / 1000:g}k" if v >= 1000 else f"{v:g}")
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlim(0, data[x].max() or 1)
    _axes(axes, data, x)


def bars(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw a bar with its interval for every variant; a bar too low to be seen is labelled "0"."""
    several = sum(1 for _ in by_variant(data, looks)) > MOST_SERIES
    for place, (name, look, line) in enumerate(by_variant(data, looks)):
        hollow = {"facecolor": "none", "edgecolor": look.colour, "linestyle": "--"}
        style: dict[str, Any] = hollow if look.line == "--" else {"color": look.colour}
        errors = whiskers(line) if whiskers(line).any() else None
        label = None if several else name
        axes.bar(place, line["mean"], 0.75, yerr=errors, capsize=2.5, label=label, **style)
    axes.grid(False, axis="x")
    name_bars(axes, [name for name, *_ in by_variant(data, looks)] if several else [])
    _axes(axes, data)
    if axes.get_yscale() == "log":  # it has no 0
        return
    axes.set_ylim(bottom=0)
    for place, (_, look, line) in enumerate(by_variant(data, looks)):
        if abs(line["mean"].iloc[0]) < UNSEEN * axes.get_ylim()[1]:
            axes.annotate("0", (place, 0), (0, 2), "data", "offset points", ha="center", color=look.colour)


def name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Write the names of bars below them if there are too many for a legend; else leave out ticks."""
    axes.set_xticks(range(len(names)), names, rotation=90, size=7)


def dots(
    axes: Axes,
    rows: pd.DataFrame,
    y: Iterable[float],
    look: Look,
    *values: str,
    hollow: bool = False,
    label: str = "",
) -> None:
    """Draw points with intervals at the heights `y`, from the columns of `values`: mean, low, high."""
    style = {"color": look.colour, "marker": look.marker, "linestyle": "", "label": label or None, **SMALL}
    inside = "white" if hollow else look.colour
    reach = whiskers(rows, *values)
    axes.errorbar(rows[values[0]], list(y), xerr=reach, markerfacecolor=inside, **style)


def named_rows(
    axes: Axes, names: Sequence[str], limit: float, unit: Callable[[float], str], inside: bool = False
) -> None:
    """Draw a line for every name from top to bottom, with 0 in the middle; `unit` labels the ticks.

    The names are printed `inside` all panels, or else at the first panel.
    """
    place = axes.get_subplotspec()
    shown = names if inside or place is None or place.is_first_col() else [""] * len(names)
    axes.set_yticks(range(len(names)), shown)
    axes.set(xlim=(-limit, limit), ylim=(len(names) - 0.5, -0.5))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: unit(value if abs(value) > 1e-9 else 0.0))
    axes.locator_params(axis="x", nbins=4)


def whiskers(rows: pd.DataFrame, *names: str) -> NDArray[np.float64]:
    """Return the lengths `[2, N]` of the intervals below and above the means; 0 for a missing interval."""
    mean, low, high = (rows[name].to_numpy(float) for name in names or ("mean", "low", "high"))
    return np.nan_to_num([mean - low, high - mean]).clip(min=0)


def _axes(axes: Axes, data: pd.DataFrame, x: str = "") -> None:
    """Set the axis: the whole range of a bounded measure; performance from 0 or logarithmic."""
    place = axes.get_subplotspec()
    if x and place is not None and place.is_last_row():
        axes.set_xlabel(X_LABELS.get(x, x.capitalize()))
    measure, means = MEASURES.get(data["measure"].iloc[0]), data["mean"].dropna()
    if measure is not None and measure.group != "performance" and np.isfinite(measure.range[1]):
        low, high = measure.range
        axes.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    elif (means > 0).all() and means.max() > LOG_FROM * means.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif len(means) and (means >= 0).all():
        axes.set_ylim(0, 1.08 * data[["mean", "high"]].max(axis=None) or 1)


def by_variant(
    data: pd.DataFrame, looks: Mapping[str, Look], x: str = "variant"
) -> Iterator[tuple[str, Look, pd.DataFrame]]:
    for name, look in looks.items():
        line = data[data["variant"] == name]
        if len(line):
            yield name, look, line.sort_values(x)
