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

TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k")
#: limits the choice to groups of experts
GROUPS = re.compile(r"(^|_)(n|num|topk|top_k|expert)_?(expert_)?groups?$")
NOISE = re.compile(r"nois[ey]")
WRAPPERS = re.compile(r"(^|(?<=\.))_orig_mod\.|^(module\.|base_model\.model\.)+")  # in the names of modules
Choices = tuple[Any, Any, int]  # experts [T, k], -1 where a choice was dropped; weights [T, k]; E


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
        parts = [(name, type(one).__name__) for name, one in self.module.named_modules() if name]
        linear = [f"{self.name}.{name}" for name, kind in parts if kind == "Linear"]
        if len(linear) == 1:
            return f"Record its linear layer instead: routers={linear[0]!r}, top_k={self.top_k or 'K'}."
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
    """Return PyTorch; `ValueError` if `what` a user called lacks it, or the model cannot be recorded."""
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
    and weights; if there are none, `*.router`, `*.gate` and product keys. `ValueError` if there are no routed
    layers; the message names modules that might be routers.
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


def read_choices(
    values: Sequence[Any], num_experts: int | None, top_k: int | None, *, logits: bool = False,
    are_sigmoids: bool = False,
) -> Choices | None:  # fmt: skip
    """Return experts, weights and the number of experts; None where the tensors hold no choices.

    Args:
        values: the inputs of a module of experts, or the outputs of a router. Tensors may have batch and
            sequence axes in front.
        num_experts: E, if it is known.
        top_k: the number of experts per token, for masks and logits.
        logits: whether tensors of floating-point numbers alone may be read as logits or gates `[..., E]`.
        are_sigmoids: whether these are sigmoids, which are read as weights if they are between 0 and 1.
    """
    import torch

    tensors = [value for value in values if torch.is_tensor(value) and value.ndim >= 2]
    numbers = [one for one in tensors if one.is_floating_point()]
    integers = [one for one in tensors if not one.is_floating_point()]  # and booleans
    for chosen in integers:
        size = num_experts or _size(numbers, chosen)
        if size is None:
            continue
        if _is_mask(chosen, numbers, size, top_k):
            return _from_mask(chosen, numbers, size, top_k)
        weights = _weights_of(chosen, numbers)
        if weights is not None:
            return _by_token(chosen), _by_token(weights), size
    if logits and numbers and top_k and not _stand_for(integers, numbers[0]):
        scores = [one for one in numbers if not num_experts or one.shape[-1] == num_experts]
        return _from_scores(scores[0], top_k, are_sigmoids) if scores else None
    return None


def _weights_of(chosen: Any, numbers: Sequence[Any]) -> Any:
    """Return the last tensor with a number for each of the experts `chosen`, if there is one."""
    import torch

    weights = [one for one in numbers if _fits(one, chosen) and chosen.dtype != torch.bool]
    return weights[-1] if weights else None


def _fits(one: Any, other: Any) -> bool:
    """Return whether two tensors have the same tokens, perhaps as batch and sequence, and last axis."""
    return one.shape[-1] == other.shape[-1] and one.numel() == other.numel()


def _by_token(values: Any) -> Any:
    """Return values `[T, k]` from `[..., k]`. A matrix is returned as it is: others may hold the same one."""
    return values if values.ndim == 2 else values.reshape(-1, values.shape[-1])


def _stand_for(integers: Sequence[Any], scores: Any) -> bool:
    """Return whether integers belong to the tokens of the scores. If so, the scores are not logits alone."""
    return any(one.shape[:-1].numel() == scores.shape[:-1].numel() for one in integers)


def _size(numbers: Sequence[Any], chosen: Any) -> int | None:
    """Return E, the width of the logits that come with experts and weights."""
    rows = chosen.shape[:-1].numel()
    others = [one for one in numbers if not _fits(one, chosen)]
    return max((one.shape[-1] for one in others if one.numel() == rows * one.shape[-1]), default=None)


def _is_mask(chosen: Any, numbers: Sequence[Any], num_experts: int, top_k: int | None) -> bool:
    """Return whether integers are a mask `[..., E]` of the chosen experts, rather than expert indices.

    Indices never repeat within a token, so a row of zeros and ones of length E > 2 is a mask. With E = 2 the
    rows (0, 1) and (1, 0) may be either: masks of k = 1, or indices of k = 2. If k is unknown, they are a
    mask if zeros have no weight. With E = 1 zeros alone are indices: a mask would drop every token.
    """
    import torch

    if chosen.dtype == torch.bool:
        return bool(chosen.shape[-1] == num_experts)
    if chosen.shape[-1] != num_experts or not chosen.numel() or chosen.min() < 0 or chosen.max() > 1:
        return False
    if num_experts == 1:
        return bool(chosen.any())
    if num_experts != 2 or (chosen.sum(-1) != 1).any():
        return True
    weights = _weights_of(chosen, numbers)
    if top_k is not None or weights is None:
        return top_k == 1
    return bool((weights[chosen == 0] == 0).all())


def _from_mask(mask: Any, numbers: Sequence[Any], size: int, top_k: int | None) -> Choices | None:
    """Return choices from a mask with either gates of all experts or one weight per token."""
    mask = mask.reshape(-1, size)
    sparse = [one.reshape(-1, size) for one in numbers if one.numel() == mask.numel()]
    gates = next((one for one in sparse if one.min() >= 0 and (one == 0).any(-1).all()), None)
    if gates is None:
        weights = next((one for one in numbers if one.numel() == len(mask)), None)
        if weights is None:
            return None
        gates = mask * weights.reshape(-1, 1)
    return _largest(gates, min(top_k or int(mask.sum(-1).max()), size))


def _from_scores(scores: Any, top_k: int, are_sigmoids: bool) -> Choices:
    """Return choices from sparse gates (at most k above 0), probabilities or sigmoids, or else from logits.

    Zeros alone are the logits of a router whose weights begin at 0, not gates that drop every token.
    """
    import torch

    rounding = max(1e-3, torch.finfo(scores.dtype).eps)  # bfloat16 probabilities sum to 1 within 1/128
    scores = scores.detach().float().reshape(-1, scores.shape[-1])
    if scores.min() >= 0 and scores.any():
        if ((scores > 0).sum(-1) <= top_k).all():
            return _largest(scores, top_k)
        if (are_sigmoids and scores.max() <= 1) or ((scores.sum(-1) - 1).abs() < rounding).all():
            experts, weights, size = _largest(scores, top_k)
            return experts, weights / weights.sum(-1, keepdim=True), size
    largest, experts = scores.topk(top_k, dim=-1)
    return experts, largest.softmax(dim=-1), scores.shape[-1]


def _largest(gates: Any, top_k: int) -> Choices:
    weights, experts = gates.topk(top_k, dim=-1)
    return experts.masked_fill(weights == 0, -1), weights, gates.shape[-1]


def read_product_keys(output: Any, parent: Any) -> tuple[Any, Any]:
    """Return experts and weights of a layer of product keys. The score of expert (x, y) is x's plus y's.

    The split follows the model: the first half of all numbers holds the x scores of all tokens.
    """
    keys = parent.num_keys
    x, y = output.detach().reshape(2, -1, keys)
    scores = (x.unsqueeze(-1) + y.unsqueeze(-2)).reshape(-1, keys * keys)
    largest, experts = scores.topk(parent.top_k, dim=-1)
    return experts, largest.softmax(dim=-1)
