"""Where a PyTorch model sends tokens to experts, and what is seen there while it runs."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from typing import Any

from modtf.checks import check_integer

EXPERTS = "experts"  # the last part of the name of a module that is handed experts and weights
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k")


@dataclass
class RoutedLayer:
    """A layer with experts."""

    name: str
    module: Any  # a torch.nn.Module: of experts, inputs say where tokens go; of a router, outputs do
    is_router: bool
    num_experts: int | None  # E; None until a router has run
    top_k: int | None = None  # of a router that puts out logits alone
    seen: tuple[Any, Any] | None = None  # experts [T, k] and weights [T, k] of the last run
    off: int | None = None  # an expert whose weights are 0


def find_layers(model: Any, routers: str | Sequence[str] | None, top_k: int | None) -> list[RoutedLayer]:
    """The routed layers of a model, in its order: the modules that `routers`, patterns such as "*.gate", say;
    or those that Hugging Face's models have, `*.experts`, which are handed the experts of every token and
    their weights. `ValueError` where there are none, with the names of modules that might be routers."""
    if top_k is not None:
        check_integer("top_k", top_k, 1)
    patterns = [routers] if isinstance(routers, str) else routers
    config = getattr(model, "config", None)
    configured = next((int(number) for name in TOP_K if (number := getattr(config, name, None))), None)
    found = []
    for name, module in model.named_modules():
        if patterns is not None and any(fnmatch(name, pattern) for pattern in patterns):
            found.append(RoutedLayer(name, module, True, None, top_k or configured))
        elif patterns is None and name.rpartition(".")[2] == EXPERTS and not hasattr(module, "__len__"):
            number = getattr(module, "num_experts", None) or next(module.parameters()).shape[0]
            found.append(RoutedLayer(name, module, False, int(number)))
    if found:
        return found
    like = [name for name, _ in model.named_modules() if any(part in name for part in ("gate", "rout"))]
    raise ValueError(
        ("No module matches " + ", ".join(patterns) if patterns else "No module is called *.experts")
        + ". Say by routers='PATTERN' which modules' outputs are logits, or experts and weights; there are "
        + (", ".join(like[:8]) or "none with 'gate' or 'rout' in their names")
        + "."
    )


@contextlib.contextmanager
def watched(layers: Sequence[RoutedLayer]) -> Iterator[None]:
    """Notes what layers do with tokens, and switches experts off, while the model runs."""
    handles = [
        layer.module.register_forward_hook(partial(_outputs, layer))
        if layer.is_router
        else layer.module.register_forward_pre_hook(partial(_inputs, layer), with_kwargs=True)
        for layer in layers
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _inputs(layer: RoutedLayer, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Notes experts and weights among what experts are handed; hands on weights without those of `off`."""
    experts, weights = _chosen([*args, *kwargs.values()])
    if experts is None:
        raise ValueError(
            f"{layer.name} was handed no experts [tokens, k] with weights; say routers='PATTERN'."
        )
    layer.seen = experts, weights
    if layer.off is None:
        return None
    left = weights * (experts != layer.off)
    return (
        tuple(left if one is weights else one for one in args),
        {name: left if one is weights else one for name, one in kwargs.items()},
    )


def _outputs(layer: RoutedLayer, _: Any, inputs: Any, out: Any) -> None:
    """Notes what a router puts out: experts and weights, or logits, whose softmax over the largest weighs."""
    import torch

    found = [one for one in (out if isinstance(out, tuple | list) else [out]) if torch.is_tensor(one)]
    experts, weights = _chosen(found)
    if experts is None:
        logits = found[0].reshape(-1, found[0].shape[-1])
        if layer.top_k is None:
            raise ValueError(
                f"The output of {layer.name} is logits; say how many experts count: top_k=2, say."
            )
        largest, experts = logits.float().topk(layer.top_k, dim=-1)
        weights = largest.softmax(dim=-1)
        layer.num_experts = logits.shape[-1]
    else:
        sizes = [one.shape[-1] for one in found if one.is_floating_point() and one.shape != experts.shape]
        layer.num_experts = sizes[0] if sizes else int(next(layer.module.parameters()).shape[0])
    layer.seen = experts, weights
    if layer.off is not None:
        raise ValueError("Experts are switched off where they are handed their weights: leave routers out.")


def _chosen(values: Sequence[Any]) -> tuple[Any, Any]:
    """Experts, the first tensor of integers `[T, k]`, and weights, the last of numbers of that shape."""
    import torch

    tensors = [one for one in values if torch.is_tensor(one) and one.ndim == 2]
    experts = next((t for t in tensors if not (t.is_floating_point() or t.dtype == torch.bool)), None)
    alike = [t for t in tensors if t.is_floating_point() and experts is not None and t.shape == experts.shape]
    return (experts, alike[-1]) if alike else (None, None)
