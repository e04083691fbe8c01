"""The measures of all layers as tables: for files, for the page, for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.text import text_table
from modtf.metrics import LayerMeasures, measures
from modtf.metrics.measure import MAIN_GROUPS
from modtf.metrics.tokens import Estimate
from modtf.metrics.tokens.estimates import ADJUSTED

BY = {"mass": "gate mass", "hard": "hard assignment"}  # what a reader calls the two ways of counting
MANY_LAYERS = 4  # of more a terminal shows one row each


@dataclass(frozen=True)
class Names:
    """What a reader calls labels and layers; None: by their numbers."""

    labels: Sequence[str] | None = None
    layers: Sequence[str] | None = None

    def label(self, number: int) -> str:
        return str(number) if self.labels is None else self.labels[number]

    def layer(self, number: int) -> str:
        return str(number) if self.layers is None else self.layers[number]


def measure_rows(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """A row per layer, way of counting and measure, with the names of layers where they have any."""
    frame = pd.DataFrame([row for layer in layers for row in layer.to_rows()])
    return _with_layer_names(frame, names)


def module_rows(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """A row per layer, way of counting and module, with the names of layers and labels."""
    frame = pd.DataFrame([row for layer in layers for row in layer.module_rows()])
    if names.labels is not None:
        place = int(frame.columns.get_indexer(["top_label"])[0])
        frame.insert(place + 1, "top_label_name", frame["top_label"].map(names.label))
    return _with_layer_names(frame, names)


def activation_rows(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """A row per layer, way of counting, label and module: p(module | label)."""
    parts = []
    for layer in layers:
        for view in layer.views:
            row, module = np.indices(view.activation.shape).reshape(2, -1)
            values = {"layer": layer.layer, "by": view.by, "label": layer.labels[row], "module": module}
            parts.append(pd.DataFrame(values).assign(probability=view.activation.ravel()))
    frame = pd.concat(parts, ignore_index=True)
    if names.labels is not None:
        frame.insert(3, "label_name", frame["label"].map(names.label))
    return _with_layer_names(frame, names)


def _with_layer_names(frame: pd.DataFrame, names: Names) -> pd.DataFrame:
    if names.layers is not None:
        frame.insert(1, "layer_name", frame["layer"].map(names.layer))
    return frame


def layer_table(layer: LayerMeasures) -> pd.DataFrame:
    """What a reader sees of a layer: a row per measure, its value, interval and chance by either way."""
    rows = {name: {"measure": name.replace("_", " ")} for view in layer.views for name in view.values}
    for view in layer.views:
        for name, found in view.values.items():
            rows[name] |= {BY[view.by]: _value(found), f"chance, {BY[view.by]}": _number(found.chance)}
    return pd.DataFrame(rows.values())


def glance_table(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """A row per layer: the main measures and the adjusted mutual information, by gate mass."""
    main = [m.name for m in measures() if m.group in MAIN_GROUPS]
    rows = []
    for layer in layers:
        values = layer.mass.values
        shown = {n.replace("_", " "): _number(values[n].value) for n in (*main, ADJUSTED) if n in values}
        few = "" if layer.too_few is None else int(layer.too_few.sum())
        rows.append({"layer": names.layer(layer.layer), **shown, "modules with too few tokens": few})
    return pd.DataFrame(rows)


def warning_lines(layers: Sequence[LayerMeasures], names: Names) -> list[str]:
    """What a reader should know first; what holds for all layers once."""
    said: dict[str, list[str]] = {}
    for layer in layers:
        for text in layer.warnings:
            said.setdefault(text, []).append(names.layer(layer.layer))
    return [
        text if len(where) == len(layers) else f"Layer {', '.join(where)}: {text}"
        for text, where in said.items()
    ]


def print_atlas(layers: Sequence[LayerMeasures], names: Names | None = None) -> str:
    """The measures of all layers as text, the warnings below them.

    Example:
        >>> (layer,) = modtf.measure_activations(np.eye(2), permutations=0)  # doctest: +SKIP
        >>> print(print_atlas([layer]))  # doctest: +SKIP
    """
    names = names or Names()
    if len(layers) > MANY_LAYERS:
        parts = ["By gate mass:", _as_text(glance_table(layers, names))]
    else:
        parts = []
        for layer in layers:
            parts += [f"Layer {names.layer(layer.layer)}:"] if len(layers) > 1 else []
            parts += [_as_text(layer_table(layer)), ""]
    parts += [f"Warning: {text}" for text in warning_lines(layers, names)]
    return "\n".join(parts).strip()


def _as_text(frame: pd.DataFrame) -> str:
    return text_table(list(frame), frame.fillna("").to_numpy().tolist())


def _value(found: Estimate) -> str:
    if np.isnan(found.low):
        return _number(found.value)
    return f"{_number(found.value)} [{_number(found.low)}, {_number(found.high)}]"


def _number(value: Any) -> str:
    return "-" if np.isnan(value) else f"{value:z.3f}"
