"""Steps of reading what a router did: gates, experts or counts, checked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import warn
from modtf.routing.formats.registry import FORMATS, Arrays
from modtf.routing.measuring.activations import Counted
from modtf.routing.measuring.layers import BFLOAT16, Experts, Gates, layers_of, one_integer

GATES = "activations"  # the usual name; without this array, experts or counts are read
ARRAYS = ("npz", "npy", "safetensors", "mapping")  # formats with user-defined axes, which may be swapped
MASKS = ("attention_mask", "padding_mask", "mask")  # arrays that are not applied
OF_LAYERS = ("layer", "layer_id", "layer_idx", "layer_index")  # columns of tables with a row for each layer
SHAPES = "expected [tokens, {last}] or [layers, tokens, {last}]"


def counted(arrays: Arrays, num_experts: int | None, shared: Sequence[int]) -> Counted:
    """Return counts `[documents, layers, experts]`."""
    if arrays["counts"].ndim != 3:
        raise ValueError(
            f"The array 'counts' of {arrays.source} has shape {arrays['counts'].shape}; expected [documents, "
            "layers, experts]. Give counts[:, np.newaxis] for [documents, experts] of one layer, and "
            "counts[np.newaxis] for [layers, experts] of one document."
        )
    counts = Counted(arrays["counts"]).counts
    common = max(int(np.gcd.reduce(counts, axis=None)), 1)
    if common > 1:
        warn(
            f"All counts are multiples of {common}, as if each token was counted {common} times. They are "
            f"divided by {common}."
        )
    counts = counts // common
    totals = counts[:, counts.any(axis=(0, 2))].sum(axis=2)  # dense layers have zeros
    if not totals.any():
        raise ValueError(f"The array 'counts' of {arrays.source} holds no choice of an expert.")
    if (totals != totals[:, :1]).any():
        warn(
            f"The layers of a document count {totals.min()} to {totals.max()} choices. Tokens were dropped, "
            "or the axes are not [documents, layers, experts]."
        )
    known = one_integer("top_k", arrays["top_k"]) if "top_k" in arrays else None
    top_k = arrays.source.top_k
    if known is not None and top_k not in (None, known):
        raise ValueError(
            f"--top_k={top_k} (top_k={top_k}) is not valid; expected {known}, which the counts were read "
            "with. Leave it out."
        )
    return Counted(_padded(arrays, counts, num_experts), top_k if known is None else known, shared)


def _padded(arrays: Arrays, counts: NDArray[np.int64], num_experts: int | None) -> NDArray[np.int64]:
    """Return counts of all experts, including those that received no token and are missing in the file."""
    known = counts.shape[2]
    number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
    if number is None:
        if FORMATS[arrays.format].lists_only_chosen:
            warn(
                f"{arrays.source} lists only experts that were chosen, so {known} experts are assumed, from "
                "the highest number. Give --num_experts=E (num_experts=E)."
            )
        return counts
    size = one_integer("num_experts", number)
    if size < known:
        raise ValueError(
            f"{arrays.source} counts {known} experts, but num_experts is {size}; expected at "
            f"least {known}, because experts are numbered from 0."
        )
    return np.pad(counts, ((0, 0), (0, 0), (0, size - known)))


def routed(
    arrays: Arrays, activations: str, experts: str | None, weights: str | None, num_experts: int | None,
    shared: Sequence[int], from_logits: bool, top_k: int | None,
) -> Gates | Experts | Counted:  # fmt: skip
    """Return the array that is asked for, or else the first that exists of gates, experts and counts.

    `ValueError` for `from_logits` or `top_k` of experts or counts, which have their own k.
    """
    if experts is None and activations == GATES and GATES not in arrays:
        if "experts" in arrays:
            experts = "experts"
        elif "counts" in arrays:
            _refuse_weights(arrays, weights=weights)
            if from_logits:
                raise ValueError("This routing holds counts of chosen experts. Leave out from_logits=True.")
            return counted(arrays, num_experts, shared)
    if experts is None:
        _refuse_weights(arrays, num_experts=num_experts, weights=weights, shared=shared)
        if "top_k" in arrays and arrays["top_k"].size == 1 and arrays.source.top_k is None:
            k = one_integer("top_k", arrays["top_k"])
            warn(f"{arrays.source} holds top_k = {k}, which is not used. Give --top_k={k} (top_k={k}).")
        found = Gates(gates(arrays, activations), from_logits, top_k)
        if "experts" in arrays and activations == GATES and arrays.format in ARRAYS:
            warn(
                f"{arrays.source} holds gates and experts. The gates are measured, and the experts are not "
                "used. Give --experts=experts (experts='experts') to measure the experts."
            )
        return found
    chosen = chosen_experts(arrays, experts, weights, num_experts, shared)
    layers_of(chosen, from_logits, top_k)  # raises an error if these are not valid
    return chosen


def _refuse_weights(arrays: Arrays, **arguments: Any) -> None:
    """Raise `ValueError` for an argument that applies to chosen experts only."""
    for name, value in arguments.items():
        if value is not None and np.size(value):
            raise ValueError(
                f"{arrays.source}: --{name} applies to chosen experts, but the file holds "
                f"{'counts' if 'counts' in arrays else 'gates'}. Leave {name} out, or name the array of "
                "experts by --experts=NAME (experts=NAME)."
            )


def gates(arrays: Arrays, name: str) -> NDArray[Any]:
    """Return gates or logits `[layers, tokens, M]`."""
    values = arrays.named(name)
    if values.dtype.kind not in "fiub" and values.dtype != BFLOAT16:
        raise ValueError(
            f"The array {name!r} of {arrays.source} is of type {values.dtype}; expected numbers."
        )
    layers = by_layer(arrays, name, values, "modules")
    if layers.shape[1] < max(layers.shape[0], layers.shape[2]):
        fewer = "modules" if layers.shape[1] < layers.shape[2] else "layers"
        raise ValueError(
            f"The array {name!r} of {arrays.source} has shape {values.shape}, with fewer tokens than "
            f"{fewer}. Transpose it if these axes are swapped; otherwise measure more tokens."
        )
    return layers


def chosen_experts(
    arrays: Arrays, experts: str, weights: str | None, num_experts: int | None, shared: Sequence[int]
) -> Experts:
    """Return the experts of tokens `[layers, tokens, k]`."""
    number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
    if number is None:
        raise ValueError(
            "Give --num_experts=E (num_experts=E), because experts that received no token do not appear in "
            "the array."
        )
    mass = arrays.optional("weights", weights)
    size = one_integer("num_experts", number)
    ids = by_layer(arrays, experts, arrays.named(experts), "k")
    layers, tokens, k = ids.shape
    if "top_k" in arrays and one_integer("top_k", arrays["top_k"]) > k:
        raise ValueError(
            f"{arrays.source} has {k} experts for each token, but top_k = {arrays['top_k'].ravel()[0]}; "
            "expected all choices, with -1 for a dropped one."
        )
    if k > size or (arrays.format in ARRAYS and tokens < layers):
        raise ValueError(
            f"The array {experts!r} of {arrays.source} has {layers} layers, {tokens} tokens and {k} choices "
            f"of {size} experts. Transpose it if axes are swapped, to [layers, tokens, k]; "
            "vLLM and others have [tokens, layers, k]."
        )
    mass = None if mass is None else by_layer(arrays, weights or "weights", mass, "k")
    return Experts(ids, size, mass, shared)


def check_rows(arrays: Arrays, num_tokens: int) -> None:
    """Warn of a mask that is not applied. Raise `ValueError` if a row is one layer of a token."""
    for name in (*MASKS, *OF_LAYERS):
        values = arrays[name].ravel() if name in arrays else np.zeros(0)
        if len(values) != num_tokens or (values == values[0]).all():
            continue
        if name in OF_LAYERS:
            raise ValueError(
                f"The array {name!r} of {arrays.source} says that rows belong to {len(np.unique(values))} "
                "layers; expected a row for each token, with all of its layers: [layers, k], or arrays "
                "[layers, tokens, k]."
            )
        warn(
            f"The array {name!r} of {arrays.source} is 0 for {np.count_nonzero(values == 0)} of {num_tokens} "
            "tokens, but all tokens are counted. Leave out padding."
        )


def by_layer(arrays: Arrays, name: str, values: NDArray[Any], last: str) -> NDArray[Any]:
    """Return the array as `[layers, tokens, ...]`; `ValueError` if the shape differs or has no tokens."""
    if values.ndim not in (2, 3) or 0 in (values.shape[0], values.shape[-1]):
        raise ValueError(
            f"The array {name!r} of {arrays.source} has shape {values.shape}; {SHAPES.format(last=last)}. "
            f"Flatten batch and sequence into tokens: {name}.reshape(-1, {last})."
        )
    layers = values[np.newaxis] if values.ndim == 2 else values
    if layers.shape[1] == 0:
        raise ValueError(
            f"The array {name!r} of {arrays.source} has shape {values.shape}, without any tokens."
        )
    return layers
