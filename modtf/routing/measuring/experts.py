"""Routing as frameworks report it: the experts of every token, and their weights."""

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.checks import check_integer
from modtf.metrics.distributions import Array, from_tensor
from modtf.routing.measuring.checks import BFLOAT16, Ints, check_no_none, from_bfloat16
from modtf.routing.measuring.gates import Tokens, shares

MOST_EXPERTS = 2**16
BITS = 0x3000, 0x3F80  # the numbers from 5e-10 to 1, as the bits of bfloat16
NONE = -1  # stands for an expert if this choice of the token was dropped


class Experts:
    """The experts that tokens were sent to, in place of the gates of all experts.

    With 256 experts and eight per token, this takes 1/32 of the memory of the gates. The weights of a token
    are divided by their sum. The scores that choose the experts may differ from the weights, for example by
    the bias of routing without an auxiliary loss.

    Args:
        experts: `[tokens, k]` or `[layers, tokens, k]`, numbers from 0; -1 for a choice that was dropped,
            because it exceeded an expert's capacity.
        num_experts: E, including experts without any token.
        weights: the weights of `experts`, of the same shape and not negative; or scores of all experts
            `[..., E]`, from which the chosen experts' are taken. If k = E, both have one shape, and these are
            the weights of `experts` in their order. None for 1/k each.
        shared: experts that every token goes to. They carry no information, so they are left out wherever
            they occur in `experts`. The others keep their numbers in tables and sentences. Arrays `[M]` have
            no entry for a shared expert: their entries belong to the experts `module_numbers`.

    Raises:
        ValueError: if an argument is invalid.

    Example:
        >>> chosen = Experts([[0, 2], [1, -1]], num_experts=4, weights=[[0.6, 0.2], [0.3, 0.0]])
        >>> chosen.layers[0].read(slice(None))[0].weights
        array([[0.75, 0.25],
               [1.  , 0.  ]])
    """

    def __init__(
        self,
        experts: ArrayLike,
        num_experts: int | None,
        weights: ArrayLike | None = None,
        shared: Sequence[int] = (),
    ):
        if num_experts is None:
            raise ValueError(
                "Give num_experts, because experts that received no token do not appear in the array."
            )
        number = check_integer("num_experts", num_experts, 1, MOST_EXPERTS)
        ids = _check_ids(experts, number)
        mass = None if weights is None else _check_weights(weights, ids, number)
        shared = check_shared(shared, number)
        _check_sent_to_all(shared, ids)
        self.top_k = ids.shape[-1] - len(set(shared))
        if self.top_k < 1:
            raise ValueError(
                f"shared holds all {ids.shape[-1]} experts of a token, so no expert was chosen. Give only "
                "the shared experts."
            )
        new = np.full(number + 1, NONE)  # index -1, the last entry, maps NONE to NONE
        kept = without_shared(number, shared)
        new[kept] = np.arange(len(kept))
        if ids.ndim == 2:
            self.layers = [ChosenExperts(ids, mass, new)]
        else:
            masses = [None] * len(ids) if mass is None else mass
            self.layers = [ChosenExperts(*layer, new) for layer in zip(ids, masses, strict=True)]


def one_integer(name: str, values: NDArray[Any]) -> int:
    """Return the number in an array; `ValueError` unless it is one integer of a possible size."""
    if values.size != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"{name} is {reprlib.repr(values.tolist())}; expected one integer, such as 8.")
    return check_integer(name, int(values.ravel()[0]), 1, MOST_EXPERTS)


def _check_ids(experts: ArrayLike, num_experts: int) -> NDArray[Any]:
    ids = _array("experts", experts, "iu")
    if ids.ndim not in (2, 3) or ids.shape[-1] == 0:
        raise ValueError(
            f"experts have shape {ids.shape}; expected [tokens, k] or [layers, tokens, k], the numbers of "
            "the k experts of each token."
        )
    if ids.dtype.kind in "iu" and np.iinfo(ids.dtype).max < num_experts - 1:
        raise ValueError(
            f"experts are of type {ids.dtype}, which holds numbers up to {np.iinfo(ids.dtype).max}; expected "
            f"a type for num_experts={num_experts}. Convert them before larger numbers are cut off."
        )
    if ids.size and not (ids.min() >= NONE and ids.max() < num_experts):
        wrong = ids.min() if ids.min() < NONE else ids.max()
        hint = " If experts are numbered from 1, subtract 1." if wrong == num_experts else ""
        raise ValueError(
            f"experts hold {wrong}; expected numbers below num_experts={num_experts} (or -1: dropped).{hint}"
        )
    return ids


def _check_weights(weights: ArrayLike, ids: NDArray[Any], num_experts: int) -> NDArray[Any]:
    mass = _array("weights", weights, "fiu")
    if mass.shape not in (ids.shape, (*ids.shape[:-1], num_experts)):
        raise ValueError(
            f"weights have shape {mass.shape}; expected {ids.shape}, the shape of experts, or a last axis "
            f"with the scores of all {num_experts} experts."
        )
    some = mass[mass != 0] if mass.dtype.kind in "iu" else mass[:0]
    if some.size and BITS[0] <= some.min() <= some.max() <= BITS[1]:
        raise ValueError(
            f"weights are integers from {some.min()} to {some.max()}, as bfloat16 that was saved as 16-bit "
            "integers; expected weights. Decode it: "
            "(values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)."
        )
    return mass


class ChosenExperts:
    """The experts of one layer; see `Experts`.

    `read` counts modules from 0, without the shared experts. Module i is the expert `module_numbers[i]`.
    """

    def __init__(self, experts: Ints, weights: Array | None, new: Ints):
        self.experts, self.weights, self._new = experts, weights, new
        self.module_numbers: Ints = np.flatnonzero(new != NONE)
        self.num_modules = len(self.module_numbers)
        # Whether weights have the shape of scores of all experts, too.
        self.have_all = weights is not None and weights.shape == experts.shape == (len(experts), len(new) - 1)

    def __len__(self) -> int:
        return len(self.experts)

    def rows(self, some: slice | Ints) -> NDArray[Any]:
        """Return the experts of tokens, with their weights, if there are any, as further columns."""
        experts = self.experts[some]
        if self.weights is None:
            return experts
        return np.concatenate([experts, from_bfloat16(self.weights[some])], axis=1)

    def read(self, some: slice | Ints, first_token: int = 0) -> tuple[Tokens, Tokens]:
        """Return the gate mass of experts, and an even share for each expert that a token was sent to.

        A choice of weight 0 does not count. `ValueError` if a weight is negative or not finite; the message
        counts tokens from `first_token`.
        """
        experts = self.experts[some]
        modules = self._new[experts]
        sent = modules >= 0
        mass = hard = sent.astype(np.float64)
        if self.weights is not None:
            weights = from_bfloat16(self.weights[some]).astype(np.float64)
            if weights.shape != experts.shape:
                weights = np.take_along_axis(weights, np.maximum(experts, 0), axis=1)
            mass = np.where(sent, weights, 0.0)
            hard = (mass > 0).astype(np.float64)  # a choice of weight 0 does not count
        wrong = ~(np.isfinite(mass) & (mass >= 0)).all(axis=1)
        if wrong.any():
            token = int(np.argmax(wrong))
            raise ValueError(
                f"The weights of token {first_token + token} are {mass[token]}; expected numbers of at "
                "least 0, the factors of the experts' outputs, not logits."
            )
        taken = np.where(sent, modules, 0)
        mass, hard = shares(mass), shares(hard)
        return Tokens(mass, taken, self.num_modules), Tokens(hard, taken, self.num_modules)


def check_shared(shared: ArrayLike, num_experts: int) -> list[int]:
    """Return the numbers of shared experts as a list. Raise `ValueError` unless they are experts."""
    listed = _array("shared", shared, "iu").ravel().tolist()
    if wrong := [one for one in listed if one not in range(num_experts)]:
        raise ValueError(f"shared holds {wrong[0]}; expected experts below num_experts={num_experts}.")
    return listed


def without_shared(num_experts: int, shared: Sequence[int]) -> Ints:
    """Return the numbers of the experts below `num_experts` that are not shared."""
    return np.delete(np.arange(num_experts), list(shared))


def _check_sent_to_all(shared: Sequence[int], ids: NDArray[Any]) -> None:
    """Raise `ValueError` if a shared expert is missing in all layers, or for some tokens of a layer.

    A layer without it is a placeholder for a dense layer.
    """
    routed = (ids != NONE).any(axis=-1)
    for one in shared:
        number = (ids == one).any(axis=-1).sum(axis=-1)
        wrong = (number > 0) & (number < routed.sum(axis=-1))
        if wrong.any() or (routed.any() and not number.any()):
            raise ValueError(
                f"shared holds {one}, but only {number.sum()} of {routed.sum()} rows of experts hold it; "
                "expected an expert that every token goes to. Leave out shared if experts holds none."
            )


def check_counted_for_all(shared: Sequence[int], counts: NDArray[Any], top_k: int | None) -> None:
    """Raise `ValueError` if counts `[documents, layers, E]` of a shared expert miss some tokens.

    Every token of a layer goes to it, so no expert is counted more often, and the experts that are not shared
    at most `top_k` times as often. A layer without it is a placeholder for a dense layer.
    """
    others = np.delete(counts, list(shared), axis=2).sum(axis=2)
    for one in shared:
        number = counts[..., one]
        wrong = number < counts.max(axis=2)
        if top_k is not None:
            wrong |= others > top_k * number
        if not number.any() or (wrong & number.any(axis=0)).any():
            raise ValueError(
                f"shared holds {one}, but {number.sum()} choices of it are too few; expected an expert that "
                "every token goes to. Leave out shared if the counts hold none."
            )


def _array(name: str, values: ArrayLike, kinds: str) -> NDArray[Any]:
    check_no_none(name, values)
    if isinstance(values, np.ma.MaskedArray):  # NumPy would read what the mask hides
        raise ValueError(
            f"{name} are masked. Replace the masked experts by experts.filled(-1), and weights by "
            "weights.filled(0)."
        )
    try:
        array = np.asarray(from_tensor(values))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    if array.size and array.dtype.kind not in kinds and (array.dtype != BFLOAT16 or "f" not in kinds):
        expected = "integers" if "f" not in kinds else "numbers"
        raise ValueError(f"{name} are of type {array.dtype}; expected {expected}.")
    return array
