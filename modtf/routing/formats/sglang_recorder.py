"""Dumps of SGLang's expert distribution recorder (`--expert-distribution-recorder-mode`), .pt files.

`per_token` dumps hold the physical experts of every token. `per_pass` dumps hold counts of physical experts
for each forward pass. `stat` dumps hold counts of logical experts for each step. The load balancer copies and
moves physical experts, so they are mapped to logical ones. Source:
`python/sglang/srt/eplb/expert_distribution.py` of github.com/sgl-project/sglang.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.counts import counts_in_memory
from modtf.routing.formats.joined import Document, as_array, as_experts, joined, warn
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source, check_fields

RECORDS, MAP, STAT, TOKENS = "records", "last_physical_to_logical_map", "logical_count", "topk_ids_of_layer"
EXTEND = 1  # SGLang's `ForwardMode` for a pass that reads prompts


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
            parts = [as_array(_field(place, dump, STAT)) for place, dump in dumps]
            return counts_in_memory(np.concatenate(parts))
        ranks = [(place, _field(place, dump, RECORDS), _mapping(place, dump)) for place, dump in dumps]
        if not all(records for _, records, _ in ranks):
            raise ValueError("a dump holds no records")
        if TOKENS in ranks[0][1][0]:
            return _tokens(_without_copies([_of_rank(*rank) for rank in ranks]))
        if len(ranks) > 1:
            raise ValueError(
                "it holds the counts of several ranks; expected one rank, because tensor-parallel ranks "
                "repeat them"
            )
        place, records, mapping = ranks[0]
        physical = np.stack([as_array(_field(place, one, "global_physical_count")) for one in records])
        return counts_in_memory(_logical_counts(physical, mapping))


def _field(place: str, dump: Any, name: str) -> Any:
    check_fields(place, dump, name)
    return dump[name]


def _mapping(place: str, dump: Any) -> NDArray[np.int64]:
    """Return the logical expert of each physical one, `[layers, physical experts]`, checked."""
    mapping = as_array(_field(place, dump, MAP))
    is_map = mapping.ndim == 2 and mapping.dtype.kind in "iu" and 0 not in mapping.shape
    everyone = np.arange(int(mapping.max()) + 1) if is_map and mapping.max() < mapping.shape[1] else None
    if everyone is None or not all(np.array_equal(np.unique(layer), everyone) for layer in mapping):
        raise ValueError(
            f"{place} has a {MAP} of shape {mapping.shape} with the numbers "
            f"{np.unique(mapping)[:1].tolist()} to {np.unique(mapping)[-1:].tolist()}; expected [layers, "
            "physical experts], with every logical expert from 0 in each layer"
        )
    return mapping.astype(np.int64)


class _Pass:
    """The tokens of one forward pass of a rank."""

    def __init__(self, place: str, record: dict[str, Any], mapping: NDArray[Any]):
        check_fields(place, record, TOKENS, "input_ids", "positions", "forward_mode")
        physical = as_experts(record[TOKENS], place, "[layers, tokens, k]")
        num_tokens = len(record["input_ids"])
        if physical.shape[:2] != (len(mapping), num_tokens):
            raise ValueError(
                f"{place} has {TOKENS} of shape {physical.shape}; expected [{len(mapping)} layers, "
                f"{num_tokens} "
                "tokens, k]"
            )
        self.place, self.tokens = place, np.asarray(record["input_ids"])
        self.positions, self.is_prompt = np.asarray(record["positions"]), record["forward_mode"] == EXTEND
        self.experts = np.moveaxis(_logical(physical, mapping, place), 1, 0)
        self.num_experts = int(mapping.max()) + 1

    def are_runs(self) -> bool:
        """Return whether each position follows the one before, or starts again at 0."""
        return bool(((np.diff(self.positions) == 1) | (self.positions[1:] == 0)).all())

    def document(self) -> Document:
        """Return all tokens of the pass as one document."""
        return Document(self.place, self.experts, tokens=self.tokens)

    def documents(self) -> list[Document]:
        """Return the prompts of the pass. Each prompt starts at position 0."""
        cuts = np.flatnonzero(self.positions == 0)[1:]
        both = zip(np.split(self.experts, cuts), np.split(self.tokens, cuts), strict=True)
        return [Document(self.place, experts, tokens=tokens) for experts, tokens in both]


def _logical(physical: NDArray[np.int32], mapping: NDArray[Any], place: str) -> NDArray[np.int32]:
    """Map physical experts `[layers, tokens, k]` to logical experts; -1 stays -1."""
    if physical.max(initial=0) >= mapping.shape[1] or physical.min(initial=0) < -1:
        raise ValueError(
            f"{place} holds the expert {physical.max()}; expected physical experts below {mapping.shape[1]}"
        )
    layer = np.arange(len(mapping))[:, np.newaxis, np.newaxis]
    return np.where(physical >= 0, mapping[layer, np.maximum(physical, 0)], -1).astype(np.int32)


def _logical_counts(physical: NDArray[Any], mapping: NDArray[Any]) -> NDArray[Any]:
    if physical.shape[1:] != mapping.shape:
        raise ValueError(
            f"counts have shape {physical.shape}; expected [passes, layers, experts], {mapping.shape}"
        )
    logical = np.zeros((*physical.shape[:2], int(mapping.max()) + 1), np.int64)
    for layer, experts in enumerate(mapping):
        for expert, counts in zip(experts, physical[:, layer].T, strict=True):
            logical[:, layer, expert] += counts
    return logical


def _of_rank(place: str, records: Sequence[dict[str, Any]], mapping: NDArray[Any]) -> list[_Pass]:
    return [_Pass(f"record {number} of {place}", one, mapping) for number, one in enumerate(records)]


def _without_copies(ranks: Sequence[list[_Pass]]) -> list[_Pass]:
    """Leave out ranks that repeat the tokens and experts of another rank, as tensor parallelism does."""
    kept: dict[tuple[bytes, ...], list[_Pass]] = {}
    for passes in ranks:
        parts = [part for one in passes for part in (one.tokens, one.positions, one.experts)]
        kept.setdefault(tuple(np.ascontiguousarray(part).tobytes() for part in parts), passes)
    if len(kept) < len(ranks):
        warn(
            f"{len(ranks) - len(kept)} of {len(ranks)} dumps hold the same routing as another, as "
            "tensor-parallel "
            "ranks do. They are left out."
        )
    return [one for passes in kept.values() for one in passes]


def _tokens(passes: Sequence[_Pass]) -> Readers:
    """Return the tokens of all passes, split into documents if each pass reads whole prompts."""
    num_experts = max(one.num_experts for one in passes)
    whole = [one.is_prompt and one.positions[0] == 0 and one.are_runs() for one in passes]
    if not all(whole):
        warn("The dump does not assign tokens to requests, so there are no documents.")
    documents = [part for one in passes for part in (one.documents() if all(whole) else [one.document()])]
    arrays = joined(documents, num_experts=num_experts)
    if not all(whole):
        del arrays["documents"]
    return arrays
