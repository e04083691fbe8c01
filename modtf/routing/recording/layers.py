"""Find the routed layers of a PyTorch model, and read which experts each of them chose."""

import inspect
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from modtf.base.checks import check_integer
from modtf.base.extras import need
from modtf.routing.recording.choices import read_choices, read_product_keys

TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k")
GROUPS = re.compile(
    r"(^|_)(n|num|topk|top_k|expert)_?(expert_)?groups?$"
)  # limits the choice to groups of experts
NOISE = re.compile(r"nois[ey]")
WRAPPERS = re.compile(r"(^|(?<=\.))_orig_mod\.|^(module\.|base_model\.model\.)+")  # in the names of modules


@dataclass
class RoutedLayer:
    """A layer with experts.

    Attributes:
        name: the module's name without the names of wrappers; `path` includes them.
        kind: "experts" for a module whose inputs hold the chosen experts and their weights; "router" for one
            whose outputs hold these, or logits; "keys" for a linear layer whose outputs are product keys.
        parts: if text and vision tokens have separate experts: the module that gets the mask of vision
            tokens, and whether this layer routes the vision tokens.
        off: an expert whose weights are set to 0, or None.
    """

    name: str
    path: str
    module: Any  # a torch.nn.Module
    parent: Any
    kind: str
    num_experts: int | None  # E; None until a router has run
    top_k: int | None
    parts: tuple[Any, bool] | None = None
    off: int | None = None

    @property
    def side(self) -> str:
        """Return the side of an encoder-decoder model that the layer is on."""
        return "decoder" if "decoder" in self.name.split(".") else "encoder"

    def read_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return experts `[T, k]` and weights `[T, k]` from the inputs of a module of experts."""
        chosen = read_choices([*args, *kwargs.values()], self.num_experts, self.top_k)
        if chosen is None:
            raise ValueError(
                f"{self.name} received no experts [tokens, k] with weights. Name the routers instead by "
                "routers='PATTERN'."
            )
        return chosen[:2]

    def read_output(self, output: Any, inputs: Sequence[Any] = ()) -> tuple[Any, Any]:
        """Return experts `[T, k]` and weights `[T, k]` from the outputs of a router, called with `inputs`."""
        if self.kind == "keys":
            return read_product_keys(output, self.parent)
        outputs = output if isinstance(output, tuple | list) else [output]
        are_sigmoids = any(type(one).__name__ == "Sigmoid" for one in self.module.modules())
        chosen = read_choices(outputs, self.num_experts, self.top_k, logits=True, are_sigmoids=are_sigmoids)
        if chosen is None and self.num_experts is None:  # experts and weights without logits
            size = _size_of_weights(self.module, inputs)
            chosen = read_choices(outputs, size, self.top_k) if size else None
        if chosen is None:
            advice = self.advice("Give this number, for example top_k=2, or other modules by ")
            raise ValueError(
                f"The output of {self.name} is neither experts with weights, nor logits with a known number "
                f"of experts per token. {advice}"
            )
        *both, self.num_experts = chosen
        return both[0], both[1]

    def advice(self, otherwise: str) -> str:
        """Return which module a user can name if the output of this one cannot be read."""
        linear = [
            name for name, one in self.module.named_modules() if name and type(one).__name__ == "Linear"
        ]
        if len(linear) == 1:
            path = f"{self.name}.{linear[0]}"
            return f"Record its linear layer instead: routers={path!r}, top_k={self.top_k or 'K'}."
        return f"{otherwise}routers='PATTERN'."

    def without_off(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the inputs of a module of experts with the weights of the expert `off` set to 0."""
        experts, weights = self.read_inputs(args, kwargs)
        left = weights * (experts != self.off)
        if not any(value is weights for value in (*args, *kwargs.values())):
            raise ValueError(f"ablate: {self.name} receives masks instead of experts. Leave out ablate.")
        return (
            tuple(left if value is weights else value for value in args),
            {name: left if value is weights else value for name, value in kwargs.items()},
        )


def check_model(model: Any, what: str) -> Any:
    """Return PyTorch; `ValueError` if it is missing, or the model cannot be recorded.

    Args:
        model: the argument that a user passed as the model.
        what: the name of the function that needs PyTorch, for the error.
    """
    torch = need("torch", "hf", what)
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model is a {type(model).__name__}; expected a torch.nn.Module.")
    for module in model.modules():
        if isinstance(module, torch.nn.DataParallel) and len(module.device_ids) > 1:
            raise ValueError(
                "A DataParallel model with several devices cannot be recorded, because its copies run in "
                "threads. Pass model.module, or use DistributedDataParallel."
            )
    return torch


def find_layers(model: Any, routers: str | Sequence[str] | None, top_k: int | None) -> list[RoutedLayer]:
    """Find the routed layers of a model, in its order.

    The defaults fit the models of Hugging Face's `transformers`: modules `*.experts` whose inputs are experts
    and weights; if there are none, `*.router`, `*.gate` and product keys.

    Args:
        model: a `torch.nn.Module`.
        routers: patterns of the names of modules, such as "*.gate".
        top_k: the number of experts per token, if routers return logits.

    Raises:
        ValueError: if no routed layers are found; the message names modules that might be routers.
    """
    if top_k is not None:
        check_integer("top_k", top_k, 1)
    patterns = [routers] if isinstance(routers, str) else routers
    modules = dict(model.named_modules())
    layers = [layer for path in modules if (layer := _layer_at(path, modules, patterns)) is not None]
    if not layers:
        raise _nothing_found(modules, patterns)
    configured = _configured_top_k(modules.values())
    for layer in layers:
        layer.top_k = top_k or layer.top_k or configured
        if others := _choice_beside(layer):
            warnings.warn(
                f"{layer.name} is a linear layer, and the module around it has {', '.join(others)}. If these "
                "change which experts are chosen, its logits give other experts. Record the module that "
                f"returns experts and weights instead: routers={layer.name.rpartition('.')[0]!r}.",
                stacklevel=4,
            )
    return layers


def _layer_at(path: str, modules: dict[str, Any], patterns: Sequence[str] | None) -> RoutedLayer | None:
    """Return the routed layer at a path; None if it is none, or if no pattern matches its name."""
    parent_path, _, last = path.rpartition(".")
    module, parent, name = modules[path], modules[parent_path], WRAPPERS.sub("", path)
    kind = _kind(last, module, parent)
    if patterns is not None:
        matches = any(fnmatch(name, pattern) or fnmatch(path, pattern) for pattern in patterns)
        kind = (kind or "router") if matches else None
    if kind is None:
        return None
    size, top_k = _num_experts(kind, module, parent), _own_top_k(module, parent)
    block = modules[parent_path.rpartition(".")[0]]
    has_parts = hasattr(block, "text_moe") and hasattr(block, "vision_moe")
    parts = (block, parent is block.vision_moe) if has_parts else None
    return RoutedLayer(name, path, module, parent, kind, size, top_k, parts)


def _nothing_found(modules: dict[str, Any], patterns: Sequence[str] | None) -> ValueError:
    candidates = [name for name in modules if re.search(r"(gate|router|routing)[^.]*$", name)]
    return ValueError(
        ("No module matches " + ", ".join(patterns) if patterns else "No module's name matches *.experts")
        + ". Give routers='PATTERN' to name the modules that return logits, or experts and weights. "
        "Candidates: " + (", ".join(candidates[:8]) or "none, as no name ends with gate or router") + "."
    )


def _kind(last: str, module: Any, parent: Any) -> str | None:
    """Return how choices are read at a module with that name, or None if its kind is unknown."""
    if last == "router_gate" and hasattr(parent, "num_keys"):
        return "keys"
    if last == "experts" and _takes_choices(module):
        return "experts"
    is_router = last in ("router", "gate") and (hasattr(module, "num_experts") or hasattr(module, "top_k"))
    return "router" if is_router and not _takes_choices(getattr(parent, "experts", None)) else None


def _takes_choices(module: Any) -> bool:
    """Return whether a module is called with hidden states, experts and weights."""
    import torch

    if module is None or type(module).forward is torch.nn.Module.forward:
        return False
    parameters = inspect.signature(module.forward).parameters.values()
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.POSITIONAL_ONLY)]
    return len(named) >= 3 or any(one.kind == one.VAR_POSITIONAL for one in parameters)


def _num_experts(kind: str, module: Any, parent: Any) -> int | None:
    owner = parent if kind == "keys" else module
    for one in owner.modules():  # a wrapper's own parameters do not belong to experts
        number = getattr(one, "total_experts", None) or getattr(one, "num_experts", None)
        if isinstance(number, int):
            return number
    if kind == "router":
        return None
    return int(next(one for one in module.parameters() if one.ndim == 3).shape[0])


def _size_of_weights(module: Any, inputs: Sequence[Any]) -> int | None:
    """Return E, from a router's first parameter: `[E, D]`, `[D, E]` or `[E]`. Its inputs have the width D."""
    shape = next((tuple(one.shape) for one in module.parameters()), ())
    width = next((one.shape[-1] for one in inputs if getattr(one, "ndim", 0) > 1), None)
    is_transposed = len(shape) == 2 and shape[0] == width != shape[1]
    return shape[is_transposed] if shape else None


def _choice_beside(layer: RoutedLayer) -> list[str]:
    """Return what a module has beside a linear gate that changes choices: a bias `[E]`, groups, noise."""
    if type(layer.module).__name__ != "Linear" or layer.parent is layer.module:
        return []
    size = (layer.module.out_features,)
    tensors = [*layer.parent.named_parameters(recurse=False), *layer.parent.named_buffers(recurse=False)]
    found = [name for name, one in tensors if tuple(one.shape) == size]
    named = (*vars(layer.parent), *(name for name, _ in layer.parent.named_children()))
    return found + [
        name
        for name in named
        if (GROUPS.search(name) and isinstance(value := getattr(layer.parent, name), int) and value > 1)
        or (NOISE.search(name) and getattr(layer.parent, name))
    ]


def _own_top_k(module: Any, parent: Any) -> int | None:
    """Return the number of experts per token that a router, or its class's name, states."""
    for one in (module, getattr(parent, "router", None), getattr(parent, "gate", None)):
        number = getattr(one, "top_k", None)
        if isinstance(number, int):
            return number
        if match := re.search(r"Top(\d+)", type(one).__name__):
            return int(match[1])
    return None


def _configured_top_k(modules: Any) -> int | None:
    configs = [module.config for module in modules if hasattr(module, "config")]
    numbers = (getattr(config, name, None) for config in configs for name in TOP_K)
    return next((number for number in numbers if isinstance(number, int) and number > 0), None)
