"""JSON files with one document each: `layers: [{"layer": 0, "counts": [...]}]`.

Tools that read llama.cpp's imatrix write such files; see github.com/avifenesh/gemma-expert-atlas.
"""

from typing import Any

from modtf.routing.formats.counts import of_documents
from modtf.routing.formats.joined import whole_number
from modtf.routing.formats.registry import FORMATS, Format, Found
from modtf.routing.formats.source import Source, check_fields


@FORMATS.register("layer_counts")
class LayerCounts(Format):
    """One file, or a folder of them. The field `label` names the document."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        layers = source.first.get("layers") if source.first_has("layers") else None
        return isinstance(layers, list) and bool(layers) and {"layer", "counts"} <= set(layers[0])

    @classmethod
    def read(cls, source: Source) -> Found:
        documents = [(place, content, _counts(place, content)) for place, content in source.contents()]
        names = [str(content.get("label", place)) for place, content, _ in documents]
        top_k = documents[0][1].get("model", {}).get("top_k_experts")
        return of_documents([(place, one) for place, _, one in documents], names, top_k)


def _counts(place: str, content: Any) -> dict[int, Any]:
    for one in content["layers"]:
        check_fields(f"a layer of {place}", one, "layer", "counts")
    counts = {int(one["layer"]): whole_number(one["counts"], place) for one in content["layers"]}
    if len(counts) < len(content["layers"]):
        raise ValueError(f"{place} has a layer twice")
    if len({len(one) for one in counts.values()}) > 1:
        raise ValueError(f"{place} has layers with different numbers of experts")
    return counts
