"""Down-projections of experts, from a PyTorch model or a safetensors checkpoint."""

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modtf.metrics.distributions import Array
from modtf.routing.formats.safetensors import tensors_of
from modtf.routing.formats.source import Source, by_number, explained
from modtf.routing.measuring.layers import from_bfloat16

ENDING = ".safetensors"
DOWN = r"(?:down_proj|w2|wo|fc2|linear_fc2|dense_4h_to_h)"
#: model.layers.0.mlp.experts.3.down_proj.weight: one matrix [hidden, inner] for each expert
EACH = re.compile(
    rf"(?P<layer>(?:.*\.)?)experts\.(?:\w+\.)*?(?:expert_)?(?P<expert>\d+)\.(?:.*\.)?{DOWN}\.weight"
)
#: model.layers.0.mlp.experts.down_proj: one array for all experts of a layer
FUSED = re.compile(rf"(?P<layer>(?:.*\.)?)experts\.(?:.*\.)?{DOWN}(?:\.weight)?")
Read = Callable[[], Any]  # returns an array or a tensor


@dataclass(frozen=True)
class Weights:
    """The down-projections of the experts of one layer.

    Attributes:
        name: the layer's name in the model.
        read: returns the matrix `[hidden, inner]` of each expert.
    """

    name: str
    read: tuple[Read, ...]


def down_projections(model: Any) -> list[Weights]:
    """Return the down-projections of all layers with experts, in the order of their numbers.

    Args:
        model: a `torch.nn.Module`, or the path of a .safetensors file or of a folder of these.

    Raises:
        ValueError: if there are no experts, a file is damaged, an expert is missing, or the axes of fused
            weights are ambiguous.
    """
    arrays = _file_arrays(model) if isinstance(model, str | Path) else _module_arrays(model)
    found: dict[str, dict[int, Read]] = {}
    for name, (shape, read) in arrays.items():
        if match := EACH.fullmatch(name):
            found.setdefault(match["layer"], {})[int(match["expert"])] = read
        elif (match := FUSED.fullmatch(name)) and len(shape) == 3:
            turned = _is_turned(name, match["layer"], shape, {n: size for n, (size, _) in arrays.items()})
            each = {i: partial(_one, read, i, turned) for i in range(shape[0])}
            found.setdefault(match["layer"], {}).update(each)
    for name, experts in found.items():
        if missing := sorted(set(range(max(experts) + 1)) - set(experts)):
            raise ValueError(
                f"{name}experts lacks the experts {reprlib.repr(missing)}; expected 0 to {max(experts)}. "
                "This is probably one shard of a checkpoint: give the folder that holds all of them."
            )
    layers = {name: experts for name, experts in found.items() if len(experts) > 1}
    if not layers:
        raise ValueError(
            f"{model if isinstance(model, str | Path) else type(model).__name__} has no layer with two or "
            "more experts; expected weights named as in model.layers.0.mlp.experts.0.down_proj.weight."
        )
    return [
        Weights(name.rstrip("."), tuple(layers[name][expert] for expert in sorted(layers[name])))
        for name in sorted(layers, key=by_number)
    ]


def _module_arrays(model: Any) -> dict[str, tuple[tuple[int, ...], Read]]:
    if not hasattr(model, "named_parameters"):
        raise ValueError(
            f"model is a {type(model).__name__}; expected a torch.nn.Module, or the path of safetensors."
        )
    return {name: (tuple(one.shape), one.detach) for name, one in model.named_parameters()}


def _file_arrays(path: str | Path) -> dict[str, tuple[tuple[int, ...], Read]]:
    files = Source(path).files(ENDING)
    if not files:
        raise ValueError(f"{path} holds no {ENDING} file.")
    found = {}
    for file in files:
        with explained(f"{file} cannot be read"):
            for name, (shape, read) in tensors_of(file).items():
                found[name] = shape, read
    return found


def _is_turned(name: str, layer: str, shape: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether a fused array is [experts, inner, hidden] and not [experts, hidden, inner].

    The router of the layer has one row of the hidden size for each expert.
    """
    routers = (size for other, size in shapes.items() if other.startswith(layer) and len(size) == 2)
    sizes = {size[1] for size in routers if size[0] == shape[0]} & set(shape[1:])
    if len(sizes) != 1 or shape[1] == shape[2]:
        raise ValueError(
            f"{name} has shape {list(shape)}. Which of the last two axes is the hidden size is unclear: "
            "expected different sizes, and a router with weights [experts, hidden]. Save one matrix for each "
            "expert."
        )
    return shape[2] in sizes


def _one(read: Read, expert: int, turned: bool) -> Any:
    matrix = read()[expert]
    return matrix.T if turned else matrix


def matrices(weights: Weights, rows: int, seed: int) -> Iterator[Array]:
    """Yield a sample of the rows of each expert's matrix, the same rows for all, `[rows, inner]`.

    Raises:
        ValueError: if a matrix has another shape than the first, or holds no finite numbers.
    """
    chosen, first = None, None
    for expert, read in enumerate(weights.read):
        matrix = read()
        if first is None:
            first = tuple(matrix.shape)
            order = np.random.default_rng(seed).permutation(first[0])
            chosen = np.sort(order[:rows])
        if tuple(matrix.shape) != first or matrix.ndim != 2:
            raise ValueError(
                f"Expert {expert} of {weights.name} has weights of shape {list(matrix.shape)}; expected "
                f"{list(first)} as expert 0."
            )
        some = _as_floats(matrix[chosen])
        if some is None:
            raise ValueError(
                f"Expert {expert} of {weights.name} has weights of type {matrix.dtype}; expected floats of "
                "16 bits or more. Dequantise the model."
            )
        if not np.isfinite(some).all():
            raise ValueError(f"Expert {expert} of {weights.name} has weights that are not finite.")
        yield some


def _as_floats(values: Any) -> Array | None:
    """Return an array or a tensor as float32; None if it is of no float type of 16 bits or more."""
    if hasattr(values, "is_floating_point"):  # a tensor
        usable = values.is_floating_point() and values.element_size() > 1
        return values.float().cpu().numpy() if usable else None
    floats = from_bfloat16(np.ascontiguousarray(values))
    return floats.astype(np.float32) if floats.dtype.kind == "f" else None
