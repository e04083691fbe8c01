"""Two layouts of SGLang: responses with routed experts, and dumps of its recorder.

Responses have `meta_info.routed_experts`, base64 of int32 without a shape. It covers the prompt and the
completion without its last token. The response holds neither the number of layers nor k. Pass k
(`--top_k=8`); the number of layers follows from responses of different lengths. With
`routed_experts_start_len` rows begin at a later token; pass the number of layers (`--num_layers=48`). Source:
`python/sglang/srt/state_capturer/routed_experts.py` of github.com/sgl-project/sglang.

The expert distribution recorder (`--expert-distribution-recorder-mode`) writes .pt files. `per_token` dumps
hold the physical experts of every token. `per_pass` dumps hold counts of physical experts for each forward
pass. `stat` dumps hold counts of logical experts for each step. The load balancer copies and moves physical
experts, so they are mapped to logical ones. Source: `python/sglang/srt/eplb/expert_distribution.py`.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import (
    Document,
    as_experts,
    field,
    in_memory,
    integers,
    joined,
    warn,
    without_copies,
)
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source, check_fields

META, ROUTED = "meta_info", "routed_experts"
ENOUGH = 20.0  # expected repetitions between two layers; with so many, observing none is not chance
RECORDS, MAP, STAT, TOKENS = "records", "last_physical_to_logical_map", "logical_count", "topk_ids_of_layer"
EXTEND = 1  # SGLang's `ForwardMode` for a pass that reads prompts


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
        pairs = zip(documents, parts, strict=True)
        if late := sum(len(one.experts) < num_tokens for one, (_, num_tokens, _) in pairs):
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


@FORMATS.register("sglang_recorder")
class SglangRecorder(Format):
    """One dump, or a folder with the dumps of several ranks."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        return source.first_has(RECORDS, MAP) or source.first_has(STAT)

    @classmethod
    def read(cls, source: Source) -> Readers:
        dumps = list(source.contents())
        if STAT in source.first:
            parts = [field(place, dump, STAT, "steps layers experts", {}) for place, dump in dumps]
            words = f"of {len(dumps)} dumps hold the same counts as another, as ranks do"
            return in_memory({"counts": np.concatenate(without_copies(parts, _bytes, words))})
        for place, dump in dumps:
            check_fields(place, dump, RECORDS, MAP)
        if not all(dump[RECORDS] for _, dump in dumps):
            raise ValueError("a dump holds no records")
        if TOKENS in dumps[0][1][RECORDS][0]:
            words = f"of {len(dumps)} dumps hold the same routing as another, as tensor-parallel ranks do"
            ranks = without_copies([_passes(place, dump) for place, dump in dumps], _key, words)
            return _tokens([one for passes in ranks for one in passes])
        if len(dumps) > 1:
            raise ValueError(
                "it holds the counts of several ranks; expected one rank, because tensor-parallel ranks "
                "repeat them"
            )
        return in_memory({"counts": _logical_counts(*dumps[0])})


def _mapping(place: str, dump: Any) -> NDArray[np.int64]:
    """Return the logical expert of each physical one, `[layers, physical experts]`, checked."""
    mapping = field(place, dump, MAP, "layers experts", {})
    everyone = np.arange(min(int(mapping.max(initial=-1)) + 1, mapping.shape[1]))
    if not mapping.size or not all(np.array_equal(np.unique(layer), everyone) for layer in mapping):
        raise ValueError(
            f"{place} has a {MAP} of shape {mapping.shape} with the numbers "
            f"{np.unique(mapping)[:1].tolist()} to {np.unique(mapping)[-1:].tolist()}; expected [layers, "
            "physical experts], with every logical expert from 0 in each layer"
        )
    return mapping.astype(np.int64)


def _passes(place: str, dump: Any) -> list["_Pass"]:
    mapping, records = _mapping(place, dump), enumerate(dump[RECORDS])
    return [_Pass(f"record {number} of {place}", one, mapping) for number, one in records]


class _Pass:
    """The tokens of one forward pass of a rank."""

    def __init__(self, place: str, record: dict[str, Any], mapping: NDArray[Any]):
        check_fields(place, record, "forward_mode")
        sizes = {"layers": len(mapping)}
        physical = as_experts(field(place, record, TOKENS, "layers tokens k", sizes), place)
        self.place, self.tokens = place, field(place, record, "input_ids", "tokens", sizes)
        self.positions = field(place, record, "positions", "tokens", sizes)
        self.is_prompt = record["forward_mode"] == EXTEND
        self.experts = np.moveaxis(_logical(physical, mapping, place), 1, 0)
        self.num_experts = int(mapping.max()) + 1

    def are_runs(self) -> bool:
        """Return whether each position follows the one before, or starts again at 0."""
        return bool(((np.diff(self.positions) == 1) | (self.positions[1:] == 0)).all())

    def documents(self, are_prompts: bool) -> list[Document]:
        """Return the prompts of the pass, which start at position 0; otherwise all its tokens as one."""
        cuts = np.flatnonzero((self.positions == 0) & are_prompts)[1:]
        both = zip(np.split(self.experts, cuts), np.split(self.tokens, cuts), strict=True)
        return [Document(self.place, *part) for part in both]


def _logical(physical: NDArray[np.int32], mapping: NDArray[Any], place: str) -> NDArray[np.int32]:
    """Map physical experts `[layers, tokens, k]` to logical experts; -1 stays -1."""
    if physical.max(initial=0) >= mapping.shape[1] or physical.min(initial=0) < -1:
        raise ValueError(
            f"{place} holds the expert {physical.max()}; expected physical experts below {mapping.shape[1]}"
        )
    layer = np.arange(len(mapping))[:, np.newaxis, np.newaxis]
    return np.where(physical >= 0, mapping[layer, np.maximum(physical, 0)], -1).astype(np.int32)


def _logical_counts(place: str, dump: Any) -> NDArray[Any]:
    """Return counts of logical experts `[passes, layers, experts]`."""
    mapping = _mapping(place, dump)
    sizes = dict(zip(("layers", "experts"), mapping.shape, strict=True))
    counted = [field(place, one, "global_physical_count", "layers experts", sizes) for one in dump[RECORDS]]
    physical = np.stack(counted)
    logical = np.zeros((*physical.shape[:2], int(mapping.max()) + 1), np.int64)
    for layer, experts in enumerate(mapping):
        for expert, counts in zip(experts, physical[:, layer].T, strict=True):
            logical[:, layer, expert] += counts
    return logical


def _key(passes: Sequence[_Pass]) -> tuple[bytes, ...]:
    return tuple(_bytes(part) for one in passes for part in (one.tokens, one.positions, one.experts))


def _bytes(part: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(part).tobytes()


def _tokens(passes: Sequence[_Pass]) -> Readers:
    """Return the tokens of all passes, split into documents if each pass reads whole prompts."""
    whole = [one.is_prompt and one.positions[0] == 0 and one.are_runs() for one in passes]
    if not all(whole):
        warn("The dump does not assign tokens to requests, so there are no documents.")
    documents = [part for one in passes for part in one.documents(all(whole))]
    arrays = joined(documents, num_experts=max(one.num_experts for one in passes))
    if not all(whole):
        del arrays["documents"]
    return arrays
