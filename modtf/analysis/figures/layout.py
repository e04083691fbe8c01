"""A picture of equal panels: a title, a note, labelled rows and columns, one legend; each variant's look."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, product
from typing import Any, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from modtf.analysis.labels import RANDOM
from modtf.pages.pictures import GREY, STYLE, Picture
from modtf.tasks.families import FAMILIES

LOW = 1.2  # inches
PAGE = 11.8  # inches of a picture in a report or on the site; wider pictures are scaled down

MOST_SERIES = 6  # in a legend
NUMBERS = {"num_rules": "R", "num_modules": "M", "parts": "k"}  # the symbols of columns


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
        mark: `mark(axes, part, looks)` draws one panel, see `modtf.analysis.figures.marks`. Artists that it
            labels with the name of a variant appear in the legend.
        table: the data in long form; its column `variant` sets the looks of the variants.
        name, title, note: of the picture. The note is also printed below the title.
        row, column: columns of the table, None for a single row or column. Panels are in the order of the
            values, texts in the order of the table. ": " in a value becomes a comma: "Regression, in
            distribution, loss".
        size: width and height of a panel with its ticks, in inches.
    """
    keys = [table[name] if name else pd.Series("", table.index) for name in (row, column)]
    rows, columns = map(_values, keys)
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
            axes[r, c].set_title(_wrapped(column, other, 10.5 * size[0]), size=9.5)
        if c == 0:
            style = {"rotation": 0, "ha": "right", "va": "center"} if upright else {}
            axes[r, c].set_ylabel(_wrapped(row, value, 14 if upright else 12 * size[1]), **style)
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


def _values(key: pd.Series) -> list[Any]:
    values = key.drop_duplicates()
    ordered = isinstance(values.dtype, pd.CategoricalDtype) or pd.api.types.is_numeric_dtype(values)
    return list(values.sort_values() if ordered else values)


def _wrapped(column: str | None, value: object, characters: float) -> str:
    """Return a label in lines. Commas replace colons, and a number gets the name of its column.

    Example:
        >>> _wrapped("where", "regression: in distribution: Loss", 40)
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
