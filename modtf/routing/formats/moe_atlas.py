"""Traces of MoE Routing Atlas: each text has `activations: [{layer, token_idx, expert_idx, gate_weight}]`.

Source: `src/moe_routing_atlas/schema.py` and `exporter.py` of github.com/DJLougen/moe-routing-atlas.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from modtf.routing.formats.joined import Document, as_array, joined, warn
from modtf.routing.formats.registry import FORMATS, Format, Found
from modtf.routing.formats.source import Source, check_fields

FIELDS = ("num_layers", "num_experts", "top_k", "activations")
COLUMNS = ("token_idx", "layer", "expert_idx", "gate_weight")


@FORMATS.register("moe_atlas")
class MoeAtlas(Format):
    """A .jsonl file with one trace per line, or a .json file `{"traces": [...]}`. A trace is a document."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        traces = source.first.get("traces") if source.first_has("traces") else [source.first]
        return isinstance(traces, list) and isinstance(traces[0], dict) and set(FIELDS) <= set(traces[0])

    @classmethod
    def read(cls, source: Source) -> Found:
        traces = list(_traces(source))
        layers = sorted({one["layer"] for _, trace in traces for one in trace["activations"]})
        sizes = {trace["num_experts"] for _, trace in traces}
        if len({trace.get("model_id") for _, trace in traces}) > 1:
            raise ValueError("its traces come from several models; read each model separately")
        unlabelled = sum(not trace.get("domain") for _, trace in traces)
        if 0 < unlabelled < len(traces):
            warn(f"{unlabelled} of {len(traces)} traces have no domain, so domains are not read as labels.")
        documents = [_document(place, trace, layers, not unlabelled) for place, trace in traces]
        # The writer counts to the highest expert of each trace. Models have an even number of experts.
        is_sure = len(sizes) == 1 and len(traces) > 1 and max(sizes) % 2 == 0
        return joined(documents, max(sizes) if is_sure else None)


def _traces(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, content in source.contents():
        for number, trace in enumerate(content.get("traces", [content])):
            where = f"trace {number} of {place}" if "traces" in content else place
            check_fields(where, trace, *FIELDS)
            yield where, trace


def _document(place: str, trace: dict[str, Any], layers: list[int], labelled: bool) -> Document:
    for one in trace["activations"]:
        check_fields(f"an activation of {place}", one, *COLUMNS)
    rows = np.array([[one[name] for name in COLUMNS] for one in trace["activations"]], np.float64)
    ids = trace.get("token_ids") or None
    k, num_layers = trace["top_k"], trace["num_layers"]
    num_tokens = len(ids) if ids else int(rows[:, 0].max()) + 1
    shape = (num_tokens, len(layers), k)
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    cells = rows[order, :2].astype(np.int64)
    expected = np.repeat([[token, layer] for token in range(num_tokens) for layer in layers], k, axis=0)
    if num_layers != len(layers) or not np.array_equal(cells, expected):
        raise ValueError(
            f"{place} has {len(rows)} activations; expected {k} for each of {num_tokens} tokens and "
            f"{num_layers} layers"
        )
    if (rows[:, :3] != np.floor(rows[:, :3])).any():
        raise ValueError(f"{place} has tokens, layers or experts with fractions; expected integers")
    experts, weights = rows[order, 2].astype(np.int32).reshape(shape), rows[order, 3].reshape(shape)
    label = str(trace["domain"]) if labelled else None
    tokens = None if ids is None else as_array(ids)
    return Document(place, experts, weights, tokens, label, [str(layer) for layer in layers])
