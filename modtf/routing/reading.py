"""Steps of reading what a router did: gates, experts or counts, checked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.counted import Counted, counted
from modtf.routing.formats.arrays import Arrays
from modtf.routing.formats.joined import warn
from modtf.routing.measuring import Experts
from modtf.routing.measuring.checks import BFLOAT16
from modtf.routing.measuring.experts import check_shared, one_integer

GATES = "activations"  # the usual name; without this array, experts or counts are read
ARRAYS = ("npz", "npy", "safetensors", "mapping")  # formats with user-defined axes, which may be swapped
MASKS = ("attention_mask", "padding_mask", "mask")  # arrays that are not applied
OF_LAYERS = ("layer", "layer_id", "layer_idx", "layer_index")  # columns of tables with a row for each layer
SHAPES = "expected [tokens, {last}] or [layers, tokens, {last}]"


@dataclass(frozen=True)
class Sent:
    """The experts of tokens and their weights; see `Experts`."""

    experts: NDArray[Any]
    num_experts: int
    weights: NDArray[Any] | None
    shared: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape [layers, tokens, E]."""
        return (*self.experts.shape[:2], self.num_experts)

    def __getitem__(self, part: tuple[slice, slice]) -> Experts:
        weights = None if self.weights is None else self.weights[part]
        return Experts(self.experts[part], self.num_experts, weights, self.shared)

    def only(self, keep: NDArray[np.bool_]) -> "Sent":
        """Return the experts of the tokens where `keep` `[tokens]` is true."""
        weights = None if self.weights is None else self.weights[:, keep]
        return replace(self, experts=self.experts[:, keep], weights=weights)


def routed(
    arrays: Arrays, activations: str, experts: str | None, weights: str | None, num_experts: int | None,
    shared: Sequence[int],
) -> NDArray[Any] | Sent | Counted:  # fmt: skip
    """Return the array that is asked for, or else the first that exists of gates, experts and counts."""
    if experts is None and activations == GATES and GATES not in arrays:
        if "experts" in arrays:
            experts = "experts"
        elif "counts" in arrays:
            _refuse_weights(arrays, weights=weights)
            return counted(arrays, num_experts, shared)
    if experts is None:
        _refuse_weights(arrays, num_experts=num_experts, weights=weights, shared=shared)
        if "top_k" in arrays and arrays["top_k"].size == 1 and arrays.source.top_k is None:
            k = one_integer("top_k", arrays["top_k"])
            warn(f"{arrays.source} holds top_k = {k}, which is not used. Give --top_k={k} (top_k={k}).")
        found = gates(arrays, activations)
        if "experts" in arrays and activations == GATES and arrays.format in ARRAYS:
            warn(
                f"{arrays.source} holds gates and experts. The gates are measured, and the experts are not "
                "used. Give --experts=experts (experts='experts') to measure the experts."
            )
        return found
    return sent(arrays, experts, weights, num_experts, shared)


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


def sent(
    arrays: Arrays, experts: str, weights: str | None, num_experts: int | None, shared: Sequence[int]
) -> Sent:
    """Return the experts of tokens `[layers, tokens, k]`."""
    number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
    if number is None:
        raise ValueError(
            "Give --num_experts=E (num_experts=E), because experts that received no token do not appear in "
            "the array."
        )
    mass = arrays.optional("weights", weights)
    size = one_integer("num_experts", number)
    choices = Sent(
        by_layer(arrays, experts, arrays.named(experts), "k"),
        size,
        None if mass is None else by_layer(arrays, weights or "weights", mass, "k"),
        tuple(check_shared(shared, size)),
    )
    choices[:, :0]  # raises an error for other types and shapes
    layers, tokens, k = choices.experts.shape
    if "top_k" in arrays and one_integer("top_k", arrays["top_k"]) > k:
        raise ValueError(
            f"{arrays.source} has {k} experts for each token, but top_k = {arrays['top_k'].ravel()[0]}; "
            "expected all choices, with -1 for a dropped one."
        )
    if k > choices.num_experts or (arrays.format in ARRAYS and tokens < layers):
        raise ValueError(
            f"The array {experts!r} of {arrays.source} has {layers} layers, {tokens} tokens and {k} choices "
            f"of {choices.num_experts} experts. Transpose it if axes are swapped, to [layers, tokens, k]; "
            "vLLM and others have [tokens, layers, k]."
        )
    return choices


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
