"""Outputs of Hugging Face's models with `output_router_logits=True`: a tuple with the logits of each layer.

A layer has `[batch * length, E]` or `[batch, length, E]`. The output does not say which tokens are padding.
Add the batch's `attention_mask` and `input_ids`: `dict(router_logits=output.router_logits, **batch)`.
Source: `transformers.modeling_outputs` of github.com/huggingface/transformers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import as_array, as_mask, field, get, in_memory, stacked, warn
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source
from modtf.routing.measuring.layers import check_no_none

LOGITS, MASK, IDS = "router_logits", "attention_mask", "input_ids"
SIDES = ("encoder_router_logits", "decoder_router_logits")


@FORMATS.register("router_logits")
class RouterLogits(Format):
    """A model's output, a tuple of layers, or a dict with both, in memory or in a .pt file.

    The array is "activations": measure it as logits (`from_logits=True`, `--logits`).
    """

    @classmethod
    def detect(cls, source: Source) -> bool:
        return _layers(source.first) is not None or any(get(source.first, side) is not None for side in SIDES)

    @classmethod
    def read(cls, source: Source) -> Readers:
        parts = [_batch(place, content) for place, content in source.contents()]
        names = set(parts[0])
        if any(set(one) != names for one in parts):
            raise ValueError(
                "its batches have different keys; give attention_mask and input_ids with all batches or "
                "with none"
            )
        if "documents" in names:
            starts = np.cumsum([0, *(int(one["documents"].max()) + 1 for one in parts)])
            for one, start in zip(parts, starts[:-1], strict=True):
                one["documents"] = one["documents"] + start
        joined = {name: [one[name] for one in parts] for name in sorted(names)}
        return in_memory({n: np.concatenate(some, int(n == "activations")) for n, some in joined.items()})


def _layers(content: Any) -> tuple[Any, ...] | None:
    is_layers = isinstance(content, tuple) and not hasattr(content, "_fields")
    layers = content if is_layers else get(content, LOGITS)
    if not isinstance(layers, tuple | list) or not layers:
        return None
    known = [layer for layer in layers if layer is not None]
    return tuple(layers) if known and all(len(np.shape(layer)) in (2, 3) for layer in known) else None


def _batch(place: str, content: Any) -> dict[str, NDArray[Any]]:
    """Return the logits `[layers, tokens, E]`, documents and token ids of one batch."""
    layers = _layers(content)
    if layers is None:
        raise ValueError(
            f"{place} has no {LOGITS}, a tuple with [tokens, E] or [batch, length, E] for each layer. For "
            "an encoder and a decoder, give one tuple at a time, such as output.encoder_router_logits"
        )
    check_no_none(place, layers)
    axes = ["[tokens, E]", "[batch, length, E]"]
    logits = stacked([as_array(layer) for layer in layers], f"{place} has layers", axes)
    batch = logits.shape[1:-1]
    logits = logits.reshape(len(layers), -1, logits.shape[-1])
    mask, ids = get(content, MASK), get(content, IDS)
    if mask is None and batch[:-1] != (1,):
        warn("There is no attention_mask, so all tokens are counted, including any padding.")
    if mask is not None or ids is not None:
        both = {MASK: np.ones(np.shape(ids)) if mask is None else mask, IDS: ids}
        sizes = dict(zip(("batch", "length"), batch, strict=True)) if len(batch) == 2 else {}
        keep = as_mask(field(place, both, MASK, "batch length", sizes), place)
        if keep.size != logits.shape[1]:
            raise ValueError(f"{place} has {MASK} of shape {keep.shape} for logits {logits.shape[1:]}")
        arrays = {"activations": logits[:, keep.ravel()], "documents": np.nonzero(keep)[0]}
        known = {} if ids is None else {"tokens": field(place, both, IDS, "batch length", sizes)[keep]}
        return arrays | known
    arrays = {"activations": logits}
    if len(batch) == 2:
        arrays["documents"] = np.repeat(np.arange(batch[0]), batch[1])
    return arrays
