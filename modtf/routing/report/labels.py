"""The parts of the page that show labels: their figure, their counts, and their names beside matrices."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.pages import page
from modtf.pages.pictures import HEAT, Picture
from modtf.routing.analyses.sentences import corrected_limit
from modtf.routing.drawing import over_layers
from modtf.routing.measuring import LayerMeasures
from modtf.routing.names import Names

MOST_LABELS = 64  # that a matrix has room for
LETTERS = 24  # of a label's name


def label_counts(layers: Sequence[LayerMeasures], names: Names) -> page.Table:
    """Return the tokens of each label, in the layer that routes most of them."""
    of_layers = [pd.Series(layer.label_counts, layer.labels) for layer in layers]
    most = pd.concat(of_layers, axis=1).max(axis=1).astype(int)
    counts = pd.DataFrame({"label": list(map(names.label, most.index.tolist())), "tokens": most.to_numpy()})
    return page.Table(counts.sort_values("tokens", ascending=False, kind="stable"))


def draw_labels(layers: Sequence[LayerMeasures], names: Names) -> Picture:
    """Draw the bits beyond chance that experts carry about each label, by layer; blank at chance level.

    The limit is corrected for all labels and layers (Bonferroni)."""
    labels = np.unique(np.concatenate([layer.labels[shown_labels(layer)] for layer in layers]))
    bits = np.full((len(labels), len(layers)), np.nan)
    for column, layer in enumerate(layers):
        view, rows = layer.views[-1], shown_labels(layer)
        mean, low, high = view.bits_by_chance
        limit = corrected_limit(low, mean, high, bits.size, len(view.largest_excess_by_chance))
        beyond = np.where(view.bits > limit, view.bits - mean, np.nan)
        bits[labels.searchsorted(layer.labels[rows]), column] = beyond[rows]
    words = [short(names.label(number), number) for number in labels.tolist()]
    title = (
        "Information of the chosen expert about a label, in bits beyond chance (darker: more, white: none)"
    )
    height = float(np.clip(0.16 * len(labels) + 1.0, 2.0, 10.0))
    figure, (axes,) = over_layers([layer.layer for layer in layers], names, [title], 90, height=height)
    most = 1.0 if np.isnan(bits).all() else None
    image = axes.imshow(bits, HEAT, aspect="auto", interpolation="nearest", vmin=0, vmax=most)
    axes.set_yticks(range(len(labels)), words)
    axes.grid(False)
    axes.tick_params(labelsize=7)
    figure.colorbar(image, ax=axes, fraction=0.03)
    table = pd.DataFrame(bits, words, [names.layer(layer.layer) for layer in layers])
    note = "Bits beyond chance, corrected for all labels and layers, by hard assignment."
    return Picture("labels", "Labels", note, figure, table)


def shown_labels(layer: LayerMeasures) -> NDArray[np.intp]:
    """The rows of the most frequent labels, in their order."""
    counts = np.zeros(len(layer.labels)) if layer.label_counts is None else layer.label_counts
    return np.sort(np.argsort(-counts, kind="stable")[:MOST_LABELS])


def short(name: str, number: int) -> str:
    """A name that fits beside a matrix and stays different from others."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 6]}... ({number})"
