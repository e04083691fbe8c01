"""Responses of SGLang with `meta_info.routed_experts`: base64 of int32 without a shape.

It covers the prompt and the completion without its last token. The response holds neither the number of
layers nor k. Pass k (`--top_k=8`); the number of layers follows from responses of different lengths. With
`routed_experts_start_len` rows begin at a later token; pass the number of layers (`--num_layers=48`). Source:
`python/sglang/srt/state_capturer/routed_experts.py` of github.com/sgl-project/sglang.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import Document, integers, joined, warn
from modtf.routing.formats.registry import FORMATS, Format, Readers
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
    def read(cls, source: Source) -> Readers:
        if source.top_k is None:
            raise ValueError(
                "SGLang's responses do not say k, the number of experts a token is sent to. Give --top_k=K "
                "(top_k=K), which is num_experts_per_tok in the model's configuration"
            )
        parts = [(*_values(place, one), place) for place, one in source.contents()]
        num_layers = source.num_layers or _num_layers(parts, source.top_k)
        documents = [_document(*part, num_layers, source.top_k) for part in parts]
        late = sum(
            len(one.experts) < num_tokens for one, (_, num_tokens, _) in zip(documents, parts, strict=True)
        )
        if late:
            warn(
                f"{late} of {len(parts)} responses hold the routing of their last tokens only "
                "(routed_experts_start_len). Their first tokens are missing."
            )
        arrays = joined(documents)
        _check_top_k(np.concatenate([one.experts for one in documents]), source.top_k)
        return arrays


def _values(place: str, response: Any) -> tuple[NDArray[Any], int]:
    """Return the experts of a response in one row, and the number of its tokens but the last."""
    meta = response[META]
    check_fields(place, meta, ROUTED, "prompt_tokens", "completion_tokens")
    value = meta[ROUTED]
    if isinstance(value, str):
        value = np.frombuffer(base64.b64decode(value, validate=True), np.int32)
    return integers(value, place).ravel(), meta["prompt_tokens"] + meta["completion_tokens"] - 1


def _num_layers(parts: Sequence[tuple[NDArray[Any], int, str]], top_k: int) -> int:
    """Return the number of layers; `ValueError` unless responses of different lengths agree on it.

    The rows of a response that begin at a later token may fit all tokens and fewer layers.
    """
    found = {len(values) / (num_tokens * top_k) if num_tokens > 0 else 0.0 for values, num_tokens, _ in parts}
    (one, *others) = sorted(found)
    if others or one < 1 or one != int(one):
        raise ValueError(
            f"its responses have {one:g} {f'to {others[-1]:g} ' * bool(others)}layers at k = {top_k}; "
            "expected one integer, from tokens x layers x k experts for all tokens but the last. Give the "
            "right --top_k, and request all tokens (routed_experts_start_len=0) or give --num_layers"
        )
    if len({num_tokens for _, num_tokens, _ in parts}) == 1:
        raise ValueError(
            f"all responses have {parts[0][1]} tokens, so {one:g} layers may be more layers of fewer tokens "
            "(routed_experts_start_len). Give --num_layers=L (num_layers=L), the number of routed layers"
        )
    return int(one)


def _document(values: NDArray[Any], num_tokens: int, place: str, num_layers: int, top_k: int) -> Document:
    if not 0 < len(values) <= num_tokens * num_layers * top_k or len(values) % (num_layers * top_k):
        raise ValueError(
            f"{place} has {len(values)} experts for {num_tokens} tokens, {num_layers} layers and k = "
            f"{top_k}; expected tokens x layers x k"
        )
    return Document(place, values.reshape(-1, num_layers, top_k))


def _check_top_k(experts: NDArray[Any], top_k: int) -> None:
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


def _repeats(choices: NDArray[Any]) -> NDArray[np.bool_]:
    """Return `[tokens, layers]`, true where an expert repeats."""
    ordered = np.sort(choices, axis=2)
    return ((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any(axis=2)
