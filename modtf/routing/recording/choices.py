"""Read the experts of every token, and their weights, from the outputs of routers or inputs of experts."""

from collections.abc import Sequence
from typing import Any

Choices = tuple[Any, Any, int]  # experts [T, k], -1 where a choice was dropped; weights [T, k]; E


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
    numbers, integers = _tensors(values)
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
        return _from_logits(numbers, num_experts, top_k, are_sigmoids)
    return None


def _tensors(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the tensors of at least two axes: floating-point ones, and integers with booleans."""
    import torch

    tensors = [value for value in values if torch.is_tensor(value) and value.ndim >= 2]
    numbers = [one for one in tensors if one.is_floating_point()]
    return numbers, [one for one in tensors if not one.is_floating_point()]


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


def _from_logits(
    numbers: Sequence[Any], num_experts: int | None, top_k: int, are_sigmoids: bool
) -> Choices | None:
    """Return choices from the first tensor whose last axis has the size E, if E is known."""
    scores = [one for one in numbers if not num_experts or one.shape[-1] == num_experts]
    return _from_scores(scores[0], top_k, are_sigmoids) if scores else None


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
