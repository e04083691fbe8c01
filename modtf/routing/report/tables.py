"""The measures of all layers as tables: for files, for the page, for the terminal."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from modtf.metrics.registry import MEASURES, activation_measures
from modtf.pages.text import plural, text_table
from modtf.routing.analyses.sentences import layers_text
from modtf.routing.measuring import Estimate, LayerMeasures
from modtf.routing.measuring.estimates import ADJUSTED, FEWEST, FEWEST_DRAWS
from modtf.routing.measuring.results import ROUNDING
from modtf.routing.names import Names

BY = {"mass": "gate mass", "hard": "hard assignment"}  # what a reader calls the two ways of counting
SHORT = "adjusted MI"  # of the adjusted mutual information, in the terminal
SPECIAL = 3  # experts that are named for each label


def expert_rows(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """Return a row per layer, way of counting and expert, with the names of labels."""
    frame = pd.DataFrame([row for layer in layers for row in layer.module_rows()])
    frame = frame.rename(columns={"module": "expert"})
    frame["top_label"] = frame["top_label"].astype("Int64")  # empty for an expert that is never used
    if names.labels is not None:
        frame = frame.drop(columns="top_label_name", errors="ignore")
        place = int(frame.columns.get_indexer(["top_label"])[0])
        frame.insert(place + 1, "top_label_name", frame["top_label"].map(names.label, na_action="ignore"))
    return frame


def activation_rows(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """Return a row per layer, way of counting, label and expert: p(expert | label)."""
    parts = []
    for layer in layers:
        for view in layer.views:
            row, module = np.indices(view.activation.shape).reshape(2, -1)
            values = {"layer": layer.layer, "by": view.by, "label": layer.labels[row]}
            values |= {"expert": layer.module_numbers[module], "probability": view.activation.ravel()}
            parts.append(pd.DataFrame(values))
    frame = pd.concat(parts, ignore_index=True)
    if names.labels is not None:
        frame.insert(3, "label_name", frame["label"].map(names.label))
    return frame


def layer_table(layer: LayerMeasures) -> pd.DataFrame:
    """Return one row per measure of a layer: the better direction, and value, interval and chance by view."""
    rows: dict[str, dict[str, str]] = {}
    for view in layer.views:
        for name, found in view.values.items():
            smaller = False if name == ADJUSTED else MEASURES[name].smaller_is_better
            better = {True: "lower", False: "higher", None: ""}[smaller]
            row = rows.setdefault(name, {"measure": name.replace("_", " "), "better": better})
            chance = "" if np.isnan(found.chance) else _number(found.chance)
            row |= {BY[view.by]: _value(found), f"chance, {BY[view.by]}": chance}
    return pd.DataFrame(rows.values())


def summary_table(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """Return one row per layer: what experts carry about labels, if there are labels, and their load."""
    rows = []
    for layer in layers:
        row = {"layer": names.layer(layer.layer)}
        for view in layer.views:
            if ADJUSTED in view.values:
                found = view.values[ADJUSTED]
                row |= {f"{SHORT},\n{BY[view.by]}": _value(found)}
                row |= {f"chance,\n{view.by}": _below(found)}
        view, main = layer.views[-1], [measure.name for measure in activation_measures()]
        if ADJUSTED not in view.values:
            known = [name for name in main if name in view.values]
            row |= {name.replace("_", "\n"): _number(view.values[name].value) for name in known}
        if (load := view.values.get("effective_experts")) is not None:
            number = "-" if np.isnan(load.value) else f"{load.value:.1f}"  # of one expert
            row["effective\nexperts"] = f"{number} of {view.use.size}"
        row["never\nused"] = str(int((view.use == 0).sum()))
        if layer.too_few is not None:
            row["too few\ntokens"] = str(int(layer.too_few.sum()))
        rows.append(row)
    return pd.DataFrame(rows)


def ranked(layers: Sequence[LayerMeasures]) -> list[LayerMeasures]:
    """Return layers by hard assignment: the most information about labels first, or the most uneven load."""

    def key(layer: LayerMeasures) -> tuple[float, float]:
        view = layer.views[-1]
        found = view.values[ADJUSTED].value if ADJUSTED in view.values else np.nan
        return -np.nan_to_num(found, nan=-np.inf), -float(view.use.max() * view.use.size)

    return sorted(layers, key=key)


def ranked_layers(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """Return one row per layer, as `ranked`: its information about labels, its busiest and unused experts."""
    rows = []
    for layer in ranked(layers):
        view = layer.views[-1]
        row = {"layer": names.layer(layer.layer)}
        if ADJUSTED in view.values:
            found = view.values[ADJUSTED]
            row |= {ADJUSTED: _value(found), "chance": _below(found)}
        busiest = int(view.use.argmax())
        row["busiest expert"] = str(layer.module_numbers[busiest])
        row["its load / mean load"] = f"{view.use[busiest] * view.use.size:.2f}"
        row["experts never used"] = str(int((view.use == 0).sum()))
        rows.append(row)
    return pd.DataFrame(rows)


def summary_notes(layers: Sequence[LayerMeasures]) -> list[str]:
    """Return what the columns of the summary mean, and which direction is better."""
    if any(ADJUSTED in layer.views[-1].values for layer in layers):
        permutations = max(len(layer.views[-1].adjusted_by_chance) for layer in layers)
        limit = f"chance: 97.5% lie lower, if normal, by mean and spread of {permutations} permutations."
        if permutations >= FEWEST:  # see `estimates.mean_and_range`
            limit = "chance: 97.5% of permutations give a lower value."
        words = [
            f"{SHORT}: adjusted mutual information of experts and labels, 0 to 1; higher: experts specialise",
            f"  more. {limit if permutations else 'Without permutations it is unknown.'}",
        ]
    else:
        words = ["collapse, alignment, inverse mutual information and adaptation: lower is better."]
    words.append(
        "effective experts: higher is a more even load. never used (by these tokens), too few tokens: "
        "lower is better."
    )
    return words


def warning_lines(layers: Sequence[LayerMeasures], names: Names) -> list[str]:
    """Return the warnings of all layers; those that differ in numbers alone are one line."""
    alike: dict[str, list[tuple[int, str]]] = {}
    for layer in layers:
        for text in layer.warnings:
            kind = re.sub(r"^(Expert|Label|All|\d+ of).*? (?=(received|had|occurred) )|\d+", "#", text)
            alike.setdefault(kind, []).append((layer.layer, text))
    lines = []
    for found in alike.values():
        line = found[0][1]
        first = [layer for layer, text in found if text == line]
        rest = [layer for layer, text in found if text != line]
        if rest or len(found) < len(layers):
            where = layers_text(first, names)
            line = f"{where[0].upper()}{where[1:]}: {line}"
        lines.append(f"{line} The same holds for others in {layers_text(rest, names)}." if rest else line)
    dropped = {layer.layer: layer.dropped for layer in layers if layer.dropped}
    if dropped:
        most = max(dropped, key=lambda layer: dropped[layer])
        tokens = f"{plural(dropped[most], 'token')} of layer {names.layer(most)}"
        others = ", and at most as many of other layers," if len(dropped) > 1 else ""
        lines.append(f"{tokens}{others} went to no expert. Such tokens are left out.")
    return lines


def all_labels(layers: Sequence[LayerMeasures]) -> list[int]:
    """Return the labels that at least one layer routes."""
    return np.unique(np.concatenate([layer.labels for layer in layers])).tolist()


def special_experts(layers: Sequence[LayerMeasures], names: Names) -> pd.DataFrame:
    """Return the experts in which each label has the largest share, if beyond chance.

    The last rows say how many labels have none, and how many cannot be judged.
    """
    views = [layer.views[-1] for layer in layers]
    # A layer that routes tokens of one label only has no permutations.
    drawn = [view.largest_excess_by_chance for view in views if view.largest_excess_by_chance.size]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NaN alone: no expert has enough tokens
        largest = np.nanmax(drawn, axis=0) if drawn else np.zeros(0)
    least = np.quantile(largest, 0.95) if largest.size else np.nan
    rows: list[tuple[str, ...]] = []
    numbers = all_labels(layers)
    both = list(zip(layers, views, strict=True))
    judged = {number for layer, view in both for number in layer.labels[~np.isnan(view.excess).all(axis=1)]}
    ordinary = 0
    for number in numbers:
        found = [
            (view.shares[row, module], layer, view, row, module)
            for layer, view in both
            for row in np.flatnonzero(layer.labels == number)
            for module in np.flatnonzero(view.excess[row] > least)
        ]
        found.sort(key=lambda item: -item[0])
        ordinary += number in judged and not found
        for share, layer, view, row, module in found[:SPECIAL]:
            assert layer.module_tokens is not None
            where = names.label(number), names.layer(layer.layer), str(layer.module_numbers[module])
            counts = str(layer.module_tokens[module]), _number(share)
            everywhere = _number(np.nansum(view.use * view.shares[row]))
            rows.append((*where, *counts, everywhere, f"{view.excess[row, module]:.1f}"))
    why = "too few tokens" if largest.size >= FEWEST_DRAWS else f"fewer than {FEWEST_DRAWS} permutations"
    unknown = len(numbers) - len(judged)
    for count, text in ((ordinary, "none is beyond chance"), (unknown, f"cannot be judged: {why}")):
        if count:
            others = f"{count} more" if count < len(numbers) else f"all {count}"
            rows.append((others, text, *[""] * 5))
    columns = ["label", "layer", "expert", "tokens", "share of the label", "of all tokens"]
    return pd.DataFrame(rows, columns=[*columns, "excess over chance, sd"])


def in_brief(layer: LayerMeasures) -> str:
    """Return the adjusted mutual information of a layer by both ways of counting, and its load."""
    found = [(BY[view.by], view.values[ADJUSTED]) for view in layer.views if ADJUSTED in view.values]
    told = ", by ".join(
        f"{by} {_number(one.value)} (chance [{_number(one.chance_low)}, {_number(one.chance_high)}])"
        for by, one in found
    )
    number = 0 if layer.too_few is None else int(layer.too_few.sum())
    few = f"; experts with too few tokens: {number}" if number else ""
    return (f"adjusted mutual information by {told}" if told else "measures") + few


def names_of(layers: Sequence[LayerMeasures], names: Names | None) -> Names:
    """Return these names; labels have the names that they came with, if there are no others."""
    names = names or Names()
    return Names(layers[0].label_names, names.layers) if names.labels is None and layers else names


def report_text(layers: Sequence[LayerMeasures], names: Names | None = None) -> str:
    """Return one line of text per layer, what its columns mean, and the warnings.

    All measures are in the tables that `write_routing_report` writes, and in `layer.to_rows()`.

    Example:
        >>> layers = modtf.measure_activations(gates, labels)  # doctest: +SKIP
        >>> print(report_text(layers))  # doctest: +SKIP
    """
    names = names_of(layers, names)
    notes = [*summary_notes(layers), *(f"Warning: {text}" for text in warning_lines(layers, names))]
    frame = summary_table(layers, names).fillna("")
    return "\n".join([text_table(list(frame), frame.to_numpy().tolist()), "", *notes])


def _value(found: Estimate) -> str:
    """Return a value and its interval, which cannot be relied on where the value is within chance."""
    if found.chance_low - ROUNDING <= found.value <= found.chance_high + ROUNDING:
        return f"{_number(found.value)} (within chance)"
    if np.isnan(found.low):
        return _number(found.value)
    return f"{_number(found.value)} [{_number(found.low)}, {_number(found.high)}]"


def _below(found: Estimate) -> str:
    return "-" if np.isnan(found.chance_high) else f"<\N{NO-BREAK SPACE}{upper_limit(found.chance_high)}"


def in_experts(text: str) -> str:
    """Return a description of a measure of modules and rules in terms of experts and labels.

    Example:
        >>> in_experts("Number of equally used modules; a module is never used.")
        'Number of equally used experts; an expert is never used.'
    """
    for word, other in {r"\b([Aa]) module": r"\1n expert", "module": "expert", "rule": "label"}.items():
        text = re.sub(word, other, text)
    return text


def upper_limit(value: float, digits: int = 3) -> str:
    """Return a limit, rounded up and above 0."""
    unit = 10**digits
    return f"{max(np.ceil(unit * value), 1) / unit:.{digits}f}"


def _number(value: Any) -> str:
    return "-" if np.isnan(value) else f"{value:z.3f}"
