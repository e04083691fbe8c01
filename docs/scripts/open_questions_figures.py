"""Draw the pictures of docs/open_questions.md: points with intervals over categories."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from modtf.analysis.figures.layout import Look, panels
from modtf.analysis.figures.marks import LOG_FROM, by_variant, joined
from modtf.pages.pictures import Picture

SHIFT = 0.08  # between variants at the same place


def picture(
    table: pd.DataFrame, name: str, title: str, note: str, *, line: float | None = None, label: str = "",
    joins: bool = True, **layout: Any,
) -> Picture:  # fmt: skip
    """Return a picture of means with intervals against the categories of `x`.

    Args:
        table: the columns variant, x (text), mean, low, high, and those that `row` and `column` name.
        line: the height of a reference line.
        label: of the x axis.
        joins: whether lines join the points of a variant.
        **layout: arguments of `panels`.
    """
    mark = partial(_points, line=line, label=label, joins=joins)
    return panels(mark, table, name, title, note, **{"size": (3.0, 2.4), **layout})


def _points(
    axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], line: float | None, label: str, joins: bool
) -> None:
    places = {x: place for place, x in enumerate(dict.fromkeys(data["x"]))}
    data = data.assign(place=data["x"].map(places))
    for n, (variant, look, part) in enumerate(by_variant(data, looks, "place")):
        shift = SHIFT * (n - (data["variant"].nunique() - 1) / 2)
        joined(axes, variant, look, part["place"] + shift, part, **({} if joins else {"linestyle": ""}))
    if line is not None:
        axes.axhline(line, color="black", linewidth=0.8)
    axes.set_xticks(list(places.values()), list(places))
    axes.set(xlim=(-0.4, len(places) - 0.6), xlabel=label)
    if (data["mean"] > 0).all() and data["mean"].max() > LOG_FROM * data["mean"].min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
