"""Counts: how often the tokens of each document chose each expert, `[documents, layers, experts]`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import as_found, whole_number
from modtf.routing.formats.registry import Found


def found_counts(
    counts: NDArray[Any],
    names: Sequence[str] | None = None,
    layer_names: Sequence[str] | None = None,
    top_k: int | None = None,
) -> Found:
    """Return the arrays of counts.

    Args:
        counts: `[documents, layers, experts]`.
        names: the names of the documents, or None.
        layer_names: the names of the layers, or None.
        top_k: the number of experts per token, or None if it is unknown.
    """
    values = whole_number(counts, "it")
    if values.ndim != 3 or 0 in values.shape:
        raise ValueError(f"its counts have shape {values.shape}; expected [documents, layers, experts]")
    arrays: dict[str, Any] = {"counts": values}
    if names is not None:
        arrays["document_names"] = np.array(names)
    if layer_names is not None:
        arrays["layer_names"] = np.array(layer_names)
    if top_k is not None:
        arrays["top_k"] = np.array(top_k)
    return as_found(arrays)


def of_documents(
    documents: Sequence[tuple[str, Mapping[int, Any]]], names: Sequence[str], top_k: int | None = None
) -> Found:
    """Return the arrays of documents, each given as its place and a mapping layer -> counts `[experts]`.

    Raise `ValueError` unless they have the same layers, all with the same number of experts.
    """
    first_place, first = documents[0]
    for place, one in documents:
        if {n: len(counts) for n, counts in one.items()} != {n: len(counts) for n, counts in first.items()}:
            raise ValueError(f"{place} and {first_place} have different layers or experts; expected the same")
    if len({len(counts) for counts in first.values()}) > 1:
        raise ValueError("its layers have different numbers of experts; expected the same number")
    layers = sorted(first)
    counts = np.stack([[one[layer] for layer in layers] for _, one in documents])
    return found_counts(counts, names, [str(layer) for layer in layers], top_k)


def stacked(parts: Sequence[tuple[str, dict[int, dict[int, int]]]]) -> Found:
    """Return the counts of documents, each given as its name and a mapping layer -> expert -> count."""
    layers = sorted({layer for _, one in parts for layer in one})
    highest = max((expert for _, one in parts for layer in one.values() for expert in layer), default=-1)
    counts = np.zeros((len(parts), len(layers), highest + 1), np.int64)
    for document, (name, one) in enumerate(parts):
        if missing := [layer for layer in layers if layer not in one]:
            raise ValueError(f"{name} lacks layer {missing[0]}; expected the same layers in all documents")
        for place, layer in enumerate(layers):
            for expert, count in one[layer].items():
                counts[document, place, expert] += count
    return found_counts(counts, [name for name, _ in parts], [str(layer) for layer in layers])
