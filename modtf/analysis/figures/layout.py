"""Panels, legends, notes and marks that figures share."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, product
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from modtf.analysis.labels import RANDOM
from modtf.metrics import MEASURES
from modtf.pages.pictures import GREY, STYLE, Picture
from modtf.tasks.families import FAMILIES

LOW = 1.2  # inches
PAGE = 11.8  # inches of a picture in a report or on the site; wider pictures are scaled down

MOST_SERIES = 6  # in a legend
NUMBERS = {"num_rules": "R", "num_modules": "M", "parts": "k"}  # the symbols of columns
LOG_FROM = 12.0  # a larger ratio of largest to smallest value gets a logarithmic axis
UNSEEN = 0.005  # the height, as a share of the axis, below which a bar cannot be seen
SPREAD = 0.05  # horizontal offset between variants, in powers of two, so that intervals do not overlap
X_LABELS = {"num_rules": "Number of rules R", "step": "Steps"}
SMALL: dict[str, Any] = {"markersize": 4.5, "capsize": 2, "elinewidth": 1.0}


class Look(NamedTuple):
    """The look of a variant."""

    colour: str
    marker: str
    line: str = "-"


# Colours of Okabe and Ito (2008) differ for any colour vision deficiency, and in brightness. Variants of a
# family take FIRST in order. Other routers take the remaining ones and Tol's muted colours.
FIRST = [Look("#D55E00", "s"), Look("#0072B2", "o"), Look("#CC79A7", "^"), Look("#009E73", "D")]
COLOURS = ("#E69F00", "#56B4E9", "#000000", "#A6761D", "#882255", "#44AA99", "#332288", "#999933", "#AA4499")
MARKERS = "vPX*<>pdh8"
Mark = Callable[[Axes, pd.DataFrame, Mapping[str, Look]], object]


def panels(
    mark: Mark,
    table: pd.DataFrame,
    name: str,
    title: str,
    note: str,
    row: str | None = None,
    column: str | None = None,
    size: tuple[float, float] = (2.4, 1.75),
) -> Picture:
    """Draw every part of a table in its own panel.

    Args:
        mark: `mark(axes, part, looks)` draws one panel, see `modtf.analysis.figures.layout`. Artists that it
            labels with the name of a variant appear in the legend.
        table: the data in long form; its column `variant` sets the looks of the variants.
        name, title, note: of the picture. The note is also printed below the title.
        row, column: columns of the table, None for a single row or column. Panels are in the order of the
            values, texts in the order of the table. ": " in a value becomes a comma: "Regression, in
            distribution, loss".
        size: width and height of a panel with its ticks, in inches.
    """
    keys = [table[name] if name else pd.Series("", table.index) for name in (row, column)]
    rows, columns = map(values_of, keys)
    upright = size[1] < LOW  # labels of rows have no room beside panels that are so low
    width = max(7.0, size[0] * len(columns) + ((1.2 if upright else 0.6) if row else 0.3))
    look = few_colours(looks(table["variant"]), table["variant"])
    shrinks = max(1.0, width / PAGE)  # a picture wider than the page is scaled down, so enlarge its text
    text = textwrap.wrap(note, int(14 * width / shrinks))
    across = max(1, int(12.5 * width / shrinks / (max(map(len, look)) + 6)))  # names per line of the legend
    lines = (len(text) + 3 + (len(look) - 1) // across) * shrinks
    figure = Figure(figsize=(width, size[1] * len(rows) + 0.17 * lines + 0.8), dpi=100)
    figure.set_layout_engine("constrained", w_pad=0.07, h_pad=0.07)
    figure.suptitle(title, x=0.1 / width, ha="left", weight="bold", size=12 * shrinks)
    body = figure.subfigures(1, 1, squeeze=False)[0, 0]  # constrained layout fits one title per (sub)figure
    body.suptitle("\n".join(text), x=0.1 / width, ha="left", size=9 * shrinks, color=GREY)
    with matplotlib.rc_context(STYLE):
        axes = body.subplots(len(rows), len(columns), squeeze=False)
    for (r, value), (c, other) in product(enumerate(rows), enumerate(columns)):
        part = table[(keys[0] == value) & (keys[1] == other)]
        if part.empty:
            axes[r, c].set(xticks=[], yticks=[])
            axes[r, c].text(0.5, 0.5, "not run", transform=axes[r, c].transAxes, ha="center", color=GREY)
        else:
            mark(axes[r, c], part, look)
        if r == 0:
            axes[r, c].set_title(wrapped(column, other, 10.5 * size[0]), size=9.5)
        if c == 0 and row:
            style = {"rotation": 0, "ha": "right", "va": "center"} if upright else {}
            axes[r, c].set_ylabel(wrapped(row, value, 14 if upright else 12 * size[1]), **style)
    body.align_ylabels(axes[:, 0])
    for each in body.axes:
        each.spines[["left", "right", "top"]].set_visible(False)
    _add_legend(body, list(look), across, 9 * shrinks)
    return Picture(name, title, note, figure, table)


def _add_legend(body: SubFigure, variants: Sequence[str], across: int, size: float) -> None:
    """Add one legend of the variants that any panel shows, in their order."""
    handles: dict[str, Any] = {}
    for axes in body.axes:
        handles.update(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    if names := [name for name in variants if name in handles]:
        if len(names) > MOST_SERIES:
            *names, first = names[:MOST_SERIES]
            others = f"{len(handles) - len(names)} others"
            names, handles = [*names, others], handles | {others: handles[first]}
        style: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": size}
        body.legend([handles[name] for name in names], names, ncols=min(len(names), across), **style)


def values_of(key: pd.Series) -> list[Any]:
    """Return the values of a column in the order of panels."""
    values = key.drop_duplicates()
    ordered = isinstance(values.dtype, pd.CategoricalDtype) or pd.api.types.is_numeric_dtype(values)
    return list(values.sort_values() if ordered else values)


def wrapped(column: str | None, value: object, characters: float) -> str:
    """Return a label in lines. Commas replace colons, and a number gets the name of its column.

    Example:
        >>> wrapped("where", "regression: in distribution: Loss", 40)
        'Regression, in distribution, loss'
    """
    text = value if isinstance(value, str) else f"{NUMBERS.get(str(column), column)} = {value:,}"
    first, *rest = text.split(": ")
    if rest:
        text = ", ".join([first[:1].upper() + first[1:], *(part[:1].lower() + part[1:] for part in rest)])
    return textwrap.fill(text, int(characters), break_long_words=False)


def few_colours(looks: Mapping[str, Look], variants: pd.Series) -> dict[str, Look]:
    """Return looks that share one grey from the sixth variant on, if there are more than six."""
    present = set(variants)
    names = [name for name in looks if name in present]
    rest = names[MOST_SERIES - 1 :] if len(names) > MOST_SERIES else []
    return {**looks, **dict.fromkeys(rest, Look("#AAAAAA", "."))}


def looks(variants: pd.Series) -> dict[str, Look]:
    """Return the look of every variant, in order.

    If `variants` is categorical, its categories are all variants of the study. Each then looks the same in
    all figures.
    """
    spare = map(Look, cycle(COLOURS), cycle(MARKERS))
    known = {RANDOM: Look("#7F7F7F", "_", "--")}
    for family in FAMILIES.values():
        new = [variant.name for variant in family.variants if variant.name not in known]
        taken = {known.get(variant.name) for variant in family.variants}
        known |= dict(zip(new, (look for look in FIRST if look not in taken), strict=False))
    names = variants.cat.categories if variants.dtype == "category" else variants.unique()
    chosen: dict[str, Look] = {}
    for name in names:  # families may share a look: give the second one another
        look = known.get(name)
        chosen[name] = look if look and look not in chosen.values() else next(spare)
    return chosen


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
