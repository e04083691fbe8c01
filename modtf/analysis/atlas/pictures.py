"""Heat maps of a layer's activation matrices."""

import numpy as np
import pandas as pd

from modtf.analysis.atlas.tables import BY, Names
from modtf.analysis.figures import Picture
from modtf.analysis.figures.matrices import NAMES, as_table, heat_maps
from modtf.metrics import LayerMeasures

LETTERS = 24  # of a label's name


def draw_layer(layer: LayerMeasures, names: Names) -> Picture:
    """p(module | label) by gate mass and by hard assignment, modules in the order of their top labels."""
    rows = np.arange(len(layer.labels))
    note = "Rows: labels. Columns: modules, in the order of the labels most frequent where they are active."
    if layer.label_counts is not None and len(rows) > NAMES[0]:
        rows = np.sort(np.argsort(-layer.label_counts, kind="stable")[: NAMES[0]])
        note += f" The {NAMES[0]} most frequent of {len(layer.labels)} labels are shown."
    activation = layer.mass.activation
    modules = np.lexsort((-activation.max(axis=0), layer.mass.top_label))
    labels = [_short(names.label(int(number)), int(number)) for number in layer.labels[rows]]
    tables = []
    for view in layer.views:
        table = as_table(view.activation[np.ix_(rows, modules)], variant=BY[view.by])
        said = f"alignment {view.values['alignment'].value:.2f}"
        named = {"rule": _named(table["rule"], labels), "module": _named(table["module"], modules)}
        tables.append(table.assign(**named, said=said))
    largest = max(float(view.activation[rows].max()) for view in layer.views)
    height = float(np.clip(0.13 * len(rows) + 0.9, 2.0, 8.0))
    width = float(np.clip(0.17 * len(modules) + 0.9, 2.0, 6.4))
    name = f"activation_layer_{layer.layer}"
    title = f"Activation matrices, layer {names.layer(layer.layer)}"
    words = name, title, note, None, "variant", (width + 0.07 * max(map(len, labels)), height)
    return heat_maps(tables, *words, rows="label", largest=largest)


def _named(codes: pd.Series, names: list[str] | np.ndarray) -> pd.Categorical:
    """Numbers of rows or columns as what stands beside them, in their order."""
    return pd.Categorical.from_codes(codes.to_numpy(), categories=[str(name) for name in names], ordered=True)


def _short(name: str, number: int) -> str:
    """A name that fits beside a heat map and stays different from others."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 6]}... ({number})"
