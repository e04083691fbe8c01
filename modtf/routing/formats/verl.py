"""Batches of verl with `routed_experts` `[batch, length, layers, k]`.

Rows are padded with zeros on both sides; `attention_mask` `[batch, length]` says which tokens count. The
last token of a row is not routed. Source: `verl/experimental/agent_loop/agent_loop.py` of
github.com/volcengine/verl.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from modtf.routing.formats.joined import Document, as_array, as_experts, as_mask, field, joined, warn
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source

ROUTED, MASK, IDS, PROMPTS = "routed_experts", "attention_mask", "input_ids", "prompts"


@FORMATS.register("verl")
class Verl(Format):
    """A `DataProto`, its batch, or a .pt file with a dict of tensors; or a list or folder of these."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        batch = _batch(source.first)
        return batch is not None and len(np.shape(batch[ROUTED])) == 4

    @classmethod
    def read(cls, source: Source) -> Readers:
        return joined([one for place, content in source.contents() for one in _documents(place, content)])


def _batch(content: Any) -> Mapping[str, Any] | None:
    """Return the batch of tensors of a `DataProto`, or the tensors themselves."""
    batch = getattr(content, "batch", content)
    if not hasattr(batch, "keys") or ROUTED not in batch.keys():  # noqa: SIM118  a TensorDict is no mapping
        return None
    return {name: batch[name] for name in batch.keys()}  # noqa: SIM118


def _documents(place: str, content: Any) -> list[Document]:
    batch, sizes = _batch(content) or {}, dict[str, int]()
    routed = field(place, batch, ROUTED, "batch length layers k", sizes)
    if MASK not in batch:
        raise ValueError(f"{place} lacks {MASK}; without it, padding would count as routed tokens")
    mask = as_mask(field(place, batch, MASK, "batch length", sizes), place)
    ids = field(place, batch, IDS, "batch length", sizes) if IDS in batch else None
    if PROMPTS in batch:
        prompts = as_array(batch[PROMPTS])
        if repeated := len(prompts) - len(np.unique(prompts, axis=0)):
            warn(
                f"{repeated} of {len(prompts)} rows of {place} repeat a prompt. Each row counts as a "
                "document, but answers to one prompt are alike, so chance bands are too narrow without "
                "--documents=prompts.npy (documents='prompts.npy'), the number of each token's prompt."
            )
    documents = []
    for number, keep in enumerate(mask):
        where = f"row {number} of {place}"
        kept = np.flatnonzero(keep)
        experts = as_experts(routed[number, kept], where)
        if len(kept) and not experts[-1].any():  # the last token is not routed
            kept, experts = kept[:-1], experts[:-1]
        if experts.shape[2] > 1 and (empty := ~experts.any(axis=(1, 2))).any():
            raise ValueError(
                f"{where} has {int(empty.sum())} tokens without experts where {MASK} is 1; expected such "
                "tokens only where it is 0, or as the last token"
            )
        if len(kept):
            documents.append(Document(where, experts, tokens=None if ids is None else ids[number, kept]))
    return documents
