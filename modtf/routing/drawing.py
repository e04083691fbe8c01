"""Figures over the layers of a model."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modtf.pages.pictures import STYLE, Picture, start_at_zero
from modtf.routing.names import Names

GREY = "#999999"  # chance
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def over_layers(
    layers: Sequence[int], names: Names, titles: Sequence[str], letters: int = 45, height: float = 3.2,
    sharey: bool = False,
) -> tuple[Figure, Sequence[Axes]]:  # fmt: skip
    """Return a figure of panels side by side, with layers below."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, height), dpi=100, layout="constrained")
        panels = figure.subplots(1, len(titles), squeeze=False, sharey=sharey)[0]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, size=9.5)
        label_layers(axes, layers, names, letters)
    return figure, panels


def label_layers(axes: Axes, layers: Sequence[int], names: Names, letters: int = 45) -> None:
    """Label the ticks of layers with the parts of their names that differ, as many as there is room for."""
    words = [names.layer(number) for number in layers]
    parts = [word.split(".") for word in words]
    if len(parts) > 1 and len(set(map(len, parts))) == 1:  # model.layers.0.mlp
        differ = [column for column in zip(*parts, strict=True) if len(set(column)) > 1]
        words = [".".join(some) for some in zip(*differ, strict=True)]
    step = -(-sum(len(word) + 1 for word in words) // letters)
    axes.set_xticks(range(0, len(layers), step), words[::step])
    axes.set_xlabel("layer")


def draw_line(axes: Axes, layers: Sequence[int], table: pd.DataFrame, colour: Any, label: str) -> None:
    """Draw a measure over layers, with its interval and the grey band of chance, as far as these are known.

    `table` has the columns layer, value, low, high, chance_low and chance_high. A layer without a row is a
    gap.
    """
    part = table.set_index("layer").reindex(layers).astype({"value": float})
    places = range(len(layers))
    axes.plot(places, part["value"], "o-", ms=3, color=colour, label=label)
    axes.fill_between(places, part["low"], part["high"], color=colour, alpha=0.2, lw=0)
    axes.fill_between(places, part["chance_low"], part["chance_high"], color=GREY, alpha=0.4, lw=0)


def draw_measures(
    name: str, title: str, table: pd.DataFrame, panels: Sequence[Sequence[str]], names: Names
) -> Picture:
    """Draw measures over layers, with their intervals and the grey bands of chance.

    `table` has the column measure and those of `draw_line`. The first of the measures in a panel is its
    title.
    """
    layers = table["layer"].drop_duplicates().tolist()
    titles = [some[0].replace("_", " ").capitalize() for some in panels]
    figure, all_axes = over_layers(layers, names, titles, 90 // len(panels))
    for axes, some in zip(all_axes, panels, strict=True):
        for measure, colour in zip(some, COLOURS, strict=False):
            draw_line(axes, layers, table[table["measure"] == measure], colour, measure.replace("_", " "))
        start_at_zero(axes)
        if len(some) > 1:
            axes.legend(frameon=False, fontsize=8)
    note = "Grey: 95% of what the null gives. Bands around lines: confidence intervals over documents."
    return Picture(name, title, note, figure, table)
