"""Caches of TransformerLens with `blocks.N.mlp.hook_expert_indices` and `hook_expert_weights`.

Indices are `[batch, position, k]` or `[batch * position, k]`; weights have the same shape, or hold the
probabilities of all experts. Source: `transformer_lens/components/mlps/moe.py` of
github.com/TransformerLensOrg/TransformerLens.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import as_array, in_memory, stacked, warn
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source

KEY = re.compile(r"blocks\.(\d+)\.mlp\.hook_expert_(indices|weights)")


@FORMATS.register("transformer_lens")
class TransformerLens(Format):
    """An `ActivationCache` or a dict, in memory or in a .pt file. Every row of a batch is a document."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        return any("indices" in kinds for kinds in _hooks(source.first).values())

    @classmethod
    def read(cls, source: Source) -> Readers:
        contents = list(source.contents())
        if len(contents) > 1:
            raise ValueError(f"it holds {len(contents)} caches; expected one. Read one at a time")
        ((place, cache),) = contents
        hooks = _hooks(cache)
        if lacking := [layer for layer, kinds in hooks.items() if len(kinds) != len(hooks[min(hooks)])]:
            raise ValueError(f"blocks.{lacking[0]} of {place} lacks a hook that other blocks have")
        experts = _stacked(place, cache, hooks, "indices")
        if experts.dtype.kind not in "iu":
            raise ValueError(f"the indices of {place} are of type {experts.dtype}; expected integers")
        arrays: dict[str, NDArray[Any]] = {"experts": _flat(experts)}
        if experts.ndim == 4:
            if experts.shape[1] > 1:
                warn("A cache does not mark padding, so all positions are counted. Cache one text at a time.")
            arrays["documents"] = np.repeat(np.arange(experts.shape[1]), experts.shape[2])
        if "weights" in hooks[min(hooks)]:
            weights = _stacked(place, cache, hooks, "weights")
            k, last = experts.shape[-1], weights.shape[-1]
            if weights.shape[:-1] != experts.shape[:-1] or last < k:
                raise ValueError(
                    f"{place} has weights {weights.shape[1:]} for indices {experts.shape[1:]}; expected the "
                    "same shape, or the weights of all experts"
                )
            arrays["weights"] = _flat(weights)
            if last > k:
                arrays["num_experts"] = np.array(last)
        arrays["layer_names"] = np.array([f"blocks.{layer}" for layer in sorted(hooks)])
        return in_memory(arrays)


def _hooks(cache: Any) -> dict[int, dict[str, str]]:
    """Return a mapping block -> "indices" or "weights" -> key in the cache."""
    hooks: dict[int, dict[str, str]] = {}
    for key in cache.keys() if hasattr(cache, "keys") else ():
        if match := KEY.fullmatch(str(key)):
            hooks.setdefault(int(match[1]), {})[match[2]] = key
    return hooks


def _stacked(place: str, cache: Any, hooks: dict[int, dict[str, str]], kind: str) -> NDArray[Any]:
    layers = [as_array(cache[hooks[layer][kind]]) for layer in sorted(hooks)]
    return stacked(layers, f"{place} has {kind}", ["[batch, position, k]", "[batch * position, k]"])


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(len(values), -1, values.shape[-1])
