"""JSON lines with a record for each token: `router_layers: [{layer, topk_experts, topk_probs}]`.

Optional fields are `prompt_id` (the document), `generated_token_index`, `generated_token_id`, `domain` and
`num_experts`. Source: `reports/schema/r4_decode.jsonl` of github.com/crogers2287/jlens.
"""

from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import Document, as_array, integers, joined
from modtf.routing.formats.registry import FORMATS, Format, Found
from modtf.routing.formats.source import Source, check_fields

LAYERS, INDEX, ID = "router_layers", "generated_token_index", "generated_token_id"
DOCUMENT = ("run_id", "prompt_id")
NOBODY = (None, None)  # the document of records that do not name one
PARTS = ("layer", "topk_experts", "topk_probs")
Line = tuple[str, dict[str, Any], NDArray[np.int32], NDArray[np.float64]]


@FORMATS.register("router_layers")
class RouterLayers(Format):
    """One .jsonl file, or a folder of them."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        return source.first_has(LAYERS)

    @classmethod
    def read(cls, source: Source) -> Found:
        names: list[int] = []
        sizes: set[int] = set()
        lines = [_line(place, record, names, sizes) for place, record in source.contents()]
        if len(sizes) > 1:
            raise ValueError(
                f"its records have {sorted(sizes)} experts; expected one number. Read each model separately"
            )
        groups = [list(group) for _, group in groupby(lines, key=lambda line: _document(line[1]))]
        keys = [_document(group[0][1]) for group in groups]
        if len(set(keys)) < len(keys):
            repeated = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(
                f"the tokens of {repeated} are not contiguous; expected the tokens of a document one after "
                "the other"
            )
        layers = [str(name) for name in names]
        arrays = joined([_joined(group, layers) for group in groups], next(iter(sizes), None))
        if keys == [NOBODY]:
            del arrays["documents"]
        elif NOBODY in keys:
            raise ValueError(
                f"some records have {' or '.join(DOCUMENT)} and some have neither; expected all or none"
            )
        return arrays


def _document(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in DOCUMENT)


def _line(place: str, record: dict[str, Any], names: list[int], sizes: set[int]) -> Line:
    """Return one token's experts and weights `[layers, k]`; update the layers and numbers of experts."""
    check_fields(place, record, LAYERS)
    for one in record[LAYERS]:
        check_fields(f"a layer of {place}", one, *PARTS)
    layers = [int(one["layer"]) for one in record[LAYERS]]
    if not names:
        names.extend(layers)
    if layers != names or len(set(layers)) < len(layers) or not layers:
        raise ValueError(f"{place} has the layers {layers}; expected {names}, each once")
    if "num_experts" in record:
        check_fields(place, record, "num_experts")
        sizes.add(int(record["num_experts"]))
    try:
        experts = integers([one["topk_experts"] for one in record[LAYERS]], place)
        weights = as_array([one["topk_probs"] for one in record[LAYERS]]).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place} has layers with different numbers of experts: {error}") from error
    if (
        experts.ndim != 2
        or weights.shape != experts.shape
        or record.get("top_k", experts.shape[-1]) != experts.shape[-1]
    ):
        raise ValueError(
            f"{place} has topk_experts {experts.shape} and topk_probs {weights.shape}; expected [layers, k] "
            "both"
        )
    return place, {name: record.get(name) for name in (*DOCUMENT, INDEX, ID, "domain")}, experts, weights


def _joined(lines: list[Line], layers: list[str]) -> Document:
    """Return one document; its token indices must be consecutive."""
    (place, first, *_), records = lines[0], [line[1] for line in lines]
    index = [record[INDEX] for record in records]
    if None not in index and index != list(range(index[0], index[0] + len(index))):
        raise ValueError(f"the {INDEX} of the document of {place} does not increase by 1 from token to token")
    if len({record["domain"] for record in records}) > 1:
        raise ValueError(f"the document of {place} has several domains; expected one for each document")
    ids = [record[ID] for record in records]
    return Document(
        place,
        np.stack([line[2] for line in lines]),
        np.stack([line[3] for line in lines]),
        None if None in ids else as_array(ids),
        first["domain"],
        layers,
    )
