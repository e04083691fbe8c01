"""Router traces of Megatron Core (`--moe-routing-trace-path`).

Each rank writes a file of JSON lines, with one line per step, block and layer. Logits are optional; they are
bfloat16 in a separate file. Source: docs.nvidia.com/megatron-core, `core.transformer.moe.router_trace`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import integers, warn, without_copies
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import JSON_LINES, Source, check_fields, json_lines
from modtf.routing.measuring.layers import BFLOAT16

FIELDS = ("block", "layer", "num_tokens", "top_indices")
MTP = "mtp"
Layer = tuple[str, int, int]  # block, index of the multi-token prediction layer or -1, layer


@dataclass(frozen=True)
class Trace:
    """One record: the experts `[tokens, k]` of one layer in one step, and the location of its logits."""

    step: int
    layer: Layer
    experts: NDArray[Any]
    record: dict[str, Any]
    folder: Path

    @property
    def key(self) -> tuple[Layer, int, bytes]:
        """The layer and its routing."""
        return self.layer, len(self.experts), self.experts.tobytes()


@FORMATS.register("megatron_core")
class MegatronCore(Format):
    """The trace of one rank, or a folder of several. Tokens are ordered by rank, then by step."""

    fields = ("top_indices", "block")

    @classmethod
    def read(cls, source: Source) -> Readers:
        files = source.files(JSON_LINES)
        again = "repeat another record of the same step and layer, as recomputed activations do"
        key = attrgetter("step", "key")
        traced = [without_copies(_traces(file), key, f"records of {file.name} {again}") for file in files]
        words = f"of {len(files)} files hold the same routing as another, as tensor-parallel ranks do"
        ranks = without_copies(traced, lambda traces: tuple(trace.key for trace in traces), words)
        _warn_of_stages(ranks)
        layers: dict[Layer, list[Trace]] = {}
        for traces in ranks:
            for trace in traces:
                layers.setdefault(trace.layer, []).append(trace)
        names = _aligned(layers)
        joined = [layers[name] for name in names]
        arrays: Readers = {
            "experts": lambda: _stacked(joined, lambda trace: trace.experts),
            "layer_names": lambda: np.array([_words(name) for name in names]),
        }
        if joined and all("logit_offset" in trace.record for layer in joined for trace in layer):
            arrays["activations"] = partial(_stacked, joined, _logits)
            arrays["top_k"] = lambda: np.array(joined[0][0].experts.shape[1])
            arrays["num_experts"] = lambda: np.array(joined[0][0].record["logit_shape"][-1])
        return arrays


def _traces(file: Path) -> list[Trace]:
    traces = []
    for place, record in json_lines(file):
        check_fields(place, record, *FIELDS)
        try:
            experts = integers(record["top_indices"], place)
            layer = str(record["block"]), int(record.get("mtp_idx", -1)), int(record["layer"])
            step = int(record.get("step", 0))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{place} is not a record of a trace: {error}") from error
        count, k = record["num_tokens"], record.get("topk")
        if count == 0:
            continue
        if experts.ndim != 2 or len(experts) != count or k not in (None, experts.shape[1]):
            raise ValueError(
                f"{place} has top_indices of shape {experts.shape}; expected ({count}, {k or 'topk'})"
            )
        traces.append(Trace(step, layer, experts, record, file.parent))
    return traces


def _warn_of_stages(ranks: Sequence[list[Trace]]) -> None:
    where = [{trace.layer for trace in traces} for traces in ranks]
    if any(one & other for number, one in enumerate(where) for other in where[:number]):
        warn(
            f"{len(ranks)} ranks have the same layer numbers. Their tokens are joined, as for data-parallel "
            "ranks. If the ranks are pipeline stages that number their layers from 0, put each stage's "
            "files into its own folder."
        )


def _aligned(layers: dict[Layer, list[Trace]]) -> list[Layer]:
    """Return the layers that routed the same tokens; `ValueError` if a layer other than MTP did not."""
    parts = {name: [(trace.step, len(trace.experts)) for trace in layers[name]] for name in sorted(layers)}
    counts = {name: [number for _, number in parts[name]] for name in parts}
    if not counts:
        raise ValueError("it holds no records")
    first, *_ = counts
    others = [name for name in parts if parts[name] != parts[first]]
    for name in others:
        if name[0] != MTP:
            raise ValueError(
                f"{_words(first)} routed {sum(counts[first])} tokens in {len(counts[first])} records, "
                f"{_words(name)} {sum(counts[name])} in {len(counts[name])}, or in other steps. Trace all "
                "layers in all steps, in their order. If pipeline stages number their layers from 0, read "
                "each stage from its own folder."
            )
    if others:
        warn(
            f"{', '.join(map(_words, others))} did not route the same tokens as {_words(first)}, because "
            "layers that predict several tokens ahead see fewer. They are left out."
        )
    return [name for name in counts if name not in others]


def _stacked(layers: list[list[Trace]], read: Callable[[Trace], NDArray[Any]]) -> NDArray[Any]:
    return np.stack([np.concatenate([read(trace) for trace in traces]) for traces in layers])


def _logits(trace: Trace) -> NDArray[Any]:
    record = trace.record
    path = trace.folder / f"logits_rank{record['rank']}.bin"
    count = record["logit_bytes"] // BFLOAT16.itemsize
    values = np.fromfile(path, BFLOAT16, count, offset=record["logit_offset"])
    return values.reshape(len(trace.experts), record["logit_shape"][-1])


def _words(name: Layer) -> str:
    block, mtp, layer = name
    return f"{block} {layer}" if mtp < 0 else f"{block} {mtp}, {layer}"
