"""Pictures of layers: curves over all of them, labels over layers, a matrix of one pixel a cell."""

import base64
import io
from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from modtf.analysis.figures import Picture
from modtf.analysis.figures.layout import STYLE
from modtf.analysis.figures.matrices import COLOURS
from modtf.analysis.routing_page.tables import ADJUSTED, BY, Names
from modtf.metrics import LayerMeasures
from modtf.metrics.tokens import View

MOST_LABELS = 64  # that a matrix has room for
LETTERS = 24  # of a label's name
GAP = 4  # modules between two matrices
COLOUR = {"mass": "#0072B2", "hard": "#D55E00"}


def draw_layers(layers: Sequence[LayerMeasures], names: Names) -> Picture:
    """Adjusted mutual information and load over layers, with the band of chance."""
    rows = [row for layer in layers for row in layer.to_rows() if row["measure"] == ADJUSTED]
    for layer in layers:
        for view in layer.views:
            use = view.use[view.use > 0]
            load = np.exp(-(use * np.log(use)).sum()) / view.use.size
            rows.append({"layer": layer.layer, "by": view.by, "measure": "load", "value": load})
    table = pd.DataFrame(rows)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.2), dpi=100, layout="constrained")
        told, load = figure.subplots(1, 2)
    places = np.arange(len(layers))
    for axes, measure in ((told, ADJUSTED), (load, "load")):
        for by, part in table[table["measure"] == measure].groupby("by", sort=False):
            axes.plot(places, part["value"], "o-", ms=3, color=COLOUR[by], label=BY[by])
            if measure == ADJUSTED:
                axes.fill_between(places, part["low"], part["high"], color=COLOUR[by], alpha=0.2, lw=0)
                band = part["chance_low"], part["chance_high"]
                axes.fill_between(places, *band, color="#999999", alpha=0.4, lw=0)
        axes.set_xlabel("layer")
        step = -(-len(layers) // 16)
        axes.set_xticks(places[::step], [names.layer(layer.layer) for layer in layers][::step])
    told.set_title("Adjusted mutual information (grey: chance)", size=9.5)
    load.set(ylim=(0, 1.02))
    load.set_title("Load: effective number of modules / modules", size=9.5)
    load.legend(frameon=False, fontsize=8)
    note = "95% of permuted labels lie in the grey bands."
    return Picture("layers", "Layers", note, figure, table)


def draw_labels(layers: Sequence[LayerMeasures], names: Names) -> Picture:
    """What the module tells of each label in each layer, in bits beyond chance; blank where not beyond."""
    labels = np.unique(np.concatenate([layer.labels[shown_labels(layer)] for layer in layers]))
    bits = np.full((len(labels), len(layers)), np.nan)
    for column, layer in enumerate(layers):
        view, rows = layer.views[-1], shown_labels(layer)
        mean, _, high = view.bits_by_chance
        beyond = np.where(view.bits > high, view.bits - mean, np.nan)
        bits[labels.searchsorted(layer.labels[rows]), column] = beyond[rows]
    words = [short(names.label(int(number)), int(number)) for number in labels]
    with matplotlib.rc_context(STYLE):
        height = float(np.clip(0.16 * len(labels) + 1.0, 2.0, 10.0))
        figure = Figure(figsize=(9.0, height), dpi=100, layout="constrained")
        axes = figure.subplots()
    image = axes.imshow(bits, COLOURS, aspect="auto", interpolation="nearest", vmin=0)
    step = -(-len(layers) // 32)
    axes.set_xticks(range(0, len(layers), step), [names.layer(layer.layer) for layer in layers][::step])
    axes.set_yticks(range(len(labels)), words)
    axes.grid(False)
    axes.tick_params(labelsize=7)
    axes.set(xlabel="layer")
    axes.set_title("What the chosen module tells of a label, bits beyond chance (white: none)", size=9.5)
    figure.colorbar(image, ax=axes, fraction=0.03)
    table = pd.DataFrame(bits, words, [names.layer(layer.layer) for layer in layers])
    return Picture("labels", "Labels", "Bits beyond chance, by hard assignment.", figure, table)


def shown_labels(layer: LayerMeasures) -> NDArray[np.intp]:
    """The rows of the most frequent labels, in their order."""
    rows = np.arange(len(layer.labels))
    if layer.label_counts is None:
        return rows[:MOST_LABELS]
    return np.sort(np.argsort(-layer.label_counts, kind="stable")[:MOST_LABELS])


def pixels(view: View, rows: NDArray[np.intp]) -> str:
    """The matrix of a view, that of a shuffled labelling to its right, as a PNG in base64."""
    shown = []
    largest = max(float(view.activation[rows].max()), 1e-9)
    for matrix in (view.activation, view.shuffled):
        if matrix is not None:
            top = np.where(matrix.max(axis=0) > 0, matrix.argmax(axis=0), len(matrix))
            modules = np.lexsort((-matrix.max(axis=0), top))
            levels = np.clip(matrix[np.ix_(rows, modules)] / largest, 0.0, 1.0) * 254
            shown += [levels.astype(np.uint8), np.full((len(rows), GAP), 255, np.uint8)]
    image = Image.fromarray(np.concatenate(shown[:-1], axis=1)).convert("P")
    colours = matplotlib.colormaps[COLOURS](np.linspace(0, 1, 255))[:, :3]
    image.putpalette([*(colours * 255).astype(np.uint8).ravel().tolist(), 255, 255, 255])
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def short(name: str, number: int) -> str:
    """A name that fits beside a matrix and stays different from others."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 6]}... ({number})"
