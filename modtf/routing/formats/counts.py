"""Counts: how often the tokens of each document chose each expert, `[documents, layers, experts]`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import in_memory, whole_number
from modtf.routing.formats.registry import Readers


def counts_in_memory(
    counts: NDArray[Any],
    layer_names: Sequence[str] | None = None,
) -> Readers:
    """Return the arrays of counts.

    Args:
        counts: `[documents, layers, experts]`.
        layer_names: the names of the layers, or None.
    """
    values = whole_number(counts, "it")
    if values.ndim != 3 or 0 in values.shape:
        raise ValueError(f"its counts have shape {values.shape}; expected [documents, layers, experts]")
    arrays: dict[str, Any] = {"counts": values}
    if layer_names is not None:
        arrays["layer_names"] = np.array(layer_names)
    return in_memory(arrays)


def documents_in_memory(documents: Sequence[tuple[str, Mapping[int, Any]]]) -> Readers:
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
    return counts_in_memory(counts, [str(layer) for layer in layers])
