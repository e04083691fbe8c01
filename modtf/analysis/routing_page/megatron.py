"""Router traces of Megatron Core (`--moe-routing-trace-path`): a file of JSON lines for each rank, with a
line for each step, block and layer, and beside it, where they were asked for, the logits as bfloat16.

Format: docs.nvidia.com/megatron-core, `core.transformer.moe.router_trace`.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.tokens.checks import BFLOAT16

Record = dict[str, Any]
Layer = tuple[str, int, int]  # block, number among those that predict several tokens or -1, layer


def traced_arrays(path: Path) -> dict[str, Callable[[], NDArray[Any]]]:
    """The arrays of one rank's file, or of a folder of them, tokens rank by rank and step by step: `experts`
    [layers, tokens, k], `layer_names`; with logits also `activations` [layers, tokens, E], in bfloat16, and
    `num_experts`. `ValueError` on a line that is none of a trace, or layers that routed different tokens."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    layers: dict[Layer, list[Record]] = {}
    for record in (record for file in files for record in _records(file)):
        place = record["block"], record.get("mtp_idx", -1), record["layer"]
        layers.setdefault(place, []).append(record)
    names, traces = sorted(layers), [layers[name] for name in sorted(layers)]
    counts = [[record["num_tokens"] for record in trace] for trace in traces]
    for name, number in zip(names, counts, strict=True):
        if number != counts[0]:
            raise ValueError(
                f"the layers {names[0]} and {name} routed different tokens. Trace all layers in all steps."
            )
    found: dict[str, Callable[[], NDArray[Any]]] = {
        "experts": partial(_stacked, traces, _experts),
        "layer_names": lambda: np.array([_words(name) for name in names]),
    }
    if traces and all("logit_offset" in record for trace in traces for record in trace):
        found["activations"] = partial(_stacked, traces, _logits)
        found["num_experts"] = lambda: np.array(traces[0][0]["logit_shape"][-1])
    return found


def _records(file: Path) -> Iterator[Record]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                if lacking := {"num_tokens", "block", "layer", "top_indices"} - set(record):
                    raise ValueError(f"it lacks {', '.join(sorted(lacking))}")
            except (ValueError, TypeError) as error:
                raise ValueError(f"line {number} of {file.name} is none of a trace: {error}") from error
            yield {**record, "folder": file.parent}


def _stacked(layers: list[list[Record]], read: Callable[[Record], NDArray[Any]]) -> NDArray[Any]:
    return np.stack([np.concatenate([read(record) for record in records]) for records in layers])


def _experts(record: Record) -> NDArray[Any]:
    return np.asarray(record["top_indices"], np.int32).reshape(record["num_tokens"], -1)


def _logits(record: Record) -> NDArray[Any]:
    path = record["folder"] / f"logits_rank{record['rank']}.bin"
    count = record["logit_bytes"] // BFLOAT16.itemsize
    values = np.fromfile(path, BFLOAT16, count, offset=record["logit_offset"])
    return values.reshape(record["num_tokens"], record["logit_shape"][-1])


def _words(name: Layer) -> str:
    block, mtp, layer = name
    return f"{block} {layer}" if mtp < 0 else f"{block} {mtp}, {layer}"
