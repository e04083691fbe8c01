"""Responses of SGLang with `meta_info.routed_experts`: base64 of int32 without a shape.

It covers the prompt and the completion without its last token. The response holds neither the number of
layers nor k. Pass k (`--top_k=8`); the number of layers follows from it. Source:
`python/sglang/srt/state_capturer/routed_experts.py` of github.com/sgl-project/sglang.
"""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import Document, as_array, integers, joined, warn
from modtf.routing.formats.registry import FORMATS, Format, Found
from modtf.routing.formats.source import Source, check_fields

META, ROUTED = "meta_info", "routed_experts"
ENOUGH = 20.0  # expected repetitions between two layers; with so many, observing none is not chance


@FORMATS.register("sglang")
class Sglang(Format):
    """Responses in JSON, in JSON lines, or in memory. Each response is a document."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        return source.first_has(META) and source.first[META].get(ROUTED) is not None

    @classmethod
    def read(cls, source: Source) -> Found:
        if source.top_k is None:
            raise ValueError(
                "SGLang's responses do not say k, the number of experts a token is sent to. Give --top_k=K "
                "(top_k=K), which is num_experts_per_tok in the model's configuration"
            )
        documents = [_document(place, one, source.top_k) for place, one in source.contents()]
        arrays = joined(documents)
        _check_top_k(np.concatenate([one.experts for one in documents]), source.top_k)
        return arrays


def _document(place: str, response: Any, top_k: int) -> Document:
    meta = response[META]
    check_fields(place, meta, ROUTED, "prompt_tokens", "completion_tokens")
    value = meta[ROUTED]
    if isinstance(value, str):
        value = np.frombuffer(base64.b64decode(value, validate=True), np.int32)
    values = integers(as_array(value)).ravel()
    num_tokens = meta["prompt_tokens"] + meta["completion_tokens"] - 1
    if num_tokens < 1 or len(values) % (num_tokens * top_k):
        raise ValueError(
            f"{place} has {len(values)} experts for {num_tokens} tokens and k = {top_k}; expected tokens x "
            "layers x k for all tokens but the last. Give the right --top_k, and request all tokens "
            "(routed_experts_start_len=0)"
        )
    return Document(place, values.reshape(num_tokens, -1, top_k))


def _check_top_k(experts: NDArray[np.int32], top_k: int) -> None:
    """Raise `ValueError` if `top_k` is not the model's k.

    If k is too large, the choices of two layers are read as one layer, and experts repeat within it. If k is
    too small, one layer is read as two neighbouring layers, and experts never repeat between them.
    """
    used = experts[:, experts.any(axis=(0, 2))]  # dense layers are zeros
    pairs = np.concatenate([used[:, :-1], used[:, 1:]], axis=2)
    if _repeats(used).any():
        raise ValueError(
            f"an expert appears twice among a token's {top_k} choices, so --top_k={top_k} is not valid; "
            "give the model's"
        )
    if len(used) * top_k**2 / (int(used.max(initial=0)) + 1) < ENOUGH:
        warn(f"There are too few tokens to check that k is {top_k}.")
    elif not _repeats(pairs).any(axis=0).all():
        raise ValueError(
            f"with k = {top_k} two neighbouring layers never choose the same expert number, so they are "
            "probably one layer; give a larger --top_k"
        )


def _repeats(choices: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return `[tokens, layers]`, true where an expert repeats."""
    ordered = np.sort(choices, axis=2)
    return ((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any(axis=2)
