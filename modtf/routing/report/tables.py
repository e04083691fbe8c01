"""The measures of all layers as tables: for files, for the page, for the terminal."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.text import text_table
from modtf.metrics import activation_measures
from modtf.routing.measuring import Estimate, LayerMeasures
from modtf.routing.measuring.estimates import ADJUSTED
from modtf.routing.names import Names

BY = {"mass": "gate mass", "hard": "hard assignment"}  # what a reader calls the two ways of counting
SPECIAL = 3  # modules that are named for each label
MANY_LAYERS = 4  # of more a terminal shows one row each


def module_rows(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """A row per layer, way of counting and module, with the names of labels."""
    frame = pd.DataFrame([row for layer in layers for row in layer.module_rows()])
    if names.labels is not None:
        frame = frame.drop(columns="top_label_name", errors="ignore")
        place = int(frame.columns.get_indexer(["top_label"])[0])
        frame.insert(place + 1, "top_label_name", frame["top_label"].map(names.label))
    return frame


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
    return frame


def layer_table(layer: LayerMeasures) -> pd.DataFrame:
    """What a reader sees of a layer: a row per measure, its value, interval and chance by either way."""
    rows = {name: {"measure": name.replace("_", " ")} for view in layer.views for name in view.values}
    for view in layer.views:
        for name, found in view.values.items():
            rows[name] |= {BY[view.by]: _value(found), f"chance, {BY[view.by]}": _number(found.chance)}
    return pd.DataFrame(rows.values())


def glance_table(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """A row per layer: adjusted mutual information by both ways of counting, the main measures by mass."""
    main = [m.name for m in activation_measures()]
    rows = []
    for layer in layers:
        row: dict[str, Any] = {"layer": names.layer(layer.layer)}
        for view in layer.views:
            if ADJUSTED in view.values:
                found = view.values[ADJUSTED]
                row[f"adjusted mutual information, {BY[view.by]}"] = _number(found.value)
                row[f"chance up to, {view.by}"] = _number(found.chance_high)
        values = layer.mass.values
        row |= {n.replace("_", " "): _number(values[n].value) for n in main if n in values}
        few = "" if layer.too_few is None else int(layer.too_few.sum())
        rows.append({**row, "modules with too few tokens": few})
    return pd.DataFrame(rows)


def warning_lines(layers: Sequence[LayerMeasures], names: Names) -> list[str]:
    """What a reader should know first; what differs between layers in numbers alone is said once."""
    said: dict[str, list[tuple[str, str]]] = {}
    for layer in layers:
        for text in layer.warnings:
            kind = re.sub(r"\d+", "#", text.partition("They are")[0])
            said.setdefault(kind, []).append((names.layer(layer.layer), text))
    lines = []
    for found in said.values():
        (where, text), alike = found[0], len({text for _, text in found}) == 1
        if alike and len(found) == len(layers):
            lines.append(text)
        elif alike or len(found) == 1:
            lines.append(f"Layer {', '.join(name for name, _ in found)}: {text}")
        else:
            lines.append(
                f"In {len(found)} of {len(layers)} layers, with other numbers; layer {where}: {text}"
            )
    dropped = [layer.dropped for layer in layers]
    if any(dropped):
        lines.append(f"{max(dropped)} tokens of a layer at most were taken by no module; they are left out.")
    return lines


def special_modules(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """For each label the modules of all layers in which it has the largest share, if beyond chance; then how
    many labels have none."""
    views = [layer.views[-1] for layer in layers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NaN alone: no module has enough tokens
        largest = np.nanmax([view.largest_excess_by_chance for view in views], axis=0)
    least = np.quantile(largest, 0.95) if largest.size else np.nan
    rows: list[tuple[str, ...]] = []
    ordinary, numbers = 0, np.unique(np.concatenate([layer.labels for layer in layers])).tolist()
    for number in numbers:
        found = [
            (view.shares[row, module], layer, view, row, module)
            for layer, view in zip(layers, views, strict=True)
            for row in np.flatnonzero(layer.labels == number)
            for module in np.flatnonzero(view.excess[row] > least)
        ]
        found.sort(key=lambda item: -item[0])
        ordinary += not found
        for share, layer, view, row, module in found[:SPECIAL]:
            assert layer.module_tokens is not None
            where = names.label(number), names.layer(layer.layer), str(module)
            counts = str(layer.module_tokens[module]), _number(share)
            everywhere = _number(np.nansum(view.use * view.shares[row]))
            rows.append((*where, *counts, everywhere, f"{view.excess[row, module]:.1f}"))
    if ordinary:
        others = f"{ordinary} more" if ordinary < len(numbers) else f"all {ordinary}"
        rows.append((others, "none is beyond chance", *[""] * 5))
    columns = ["label", "layer", "module", "tokens", "share of the label", "of all tokens"]
    return pd.DataFrame(rows, columns=[*columns, "excess over chance, sd"])


def in_brief(layer: LayerMeasures) -> str:
    """The adjusted mutual information of a layer by both ways of counting, and its load."""
    found = [(BY[view.by], view.values[ADJUSTED]) for view in layer.views if ADJUSTED in view.values]
    told = ", by ".join(
        f"{by} {_number(one.value)} (chance [{_number(one.chance_low)}, {_number(one.chance_high)}])"
        for by, one in found
    )
    number = 0 if layer.too_few is None else int(layer.too_few.sum())
    few = f"; modules with too few tokens: {number}" if number else ""
    return (f"adjusted mutual information by {told}" if told else "measures") + few


def names_of(layers: Sequence[LayerMeasures], names: Names | None) -> Names:
    """These names; of labels those that they came with, if there are no others."""
    names = names or Names()
    return Names(layers[0].label_names, names.layers) if names.labels is None and layers else names


def report_text(layers: Sequence[LayerMeasures], names: Names | None = None) -> str:
    """The measures of all layers as text, the warnings below them.

    Example:
        >>> (layer,) = modtf.measure_activations(np.eye(2), permutations=0)  # doctest: +SKIP
        >>> print(report_text([layer]))  # doctest: +SKIP
    """
    names = names_of(layers, names)
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
