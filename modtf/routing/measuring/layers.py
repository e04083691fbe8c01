"""The layers of a mixture of experts: gates, logits, or the experts that tokens were sent to.

`Gates` and `Experts` check arrays once. Everything else reads tokens from their `layers`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.checks import check_integer
from modtf.metrics.distributions import Array, from_tensor, real

Ints = NDArray[np.int64]
MOST_EXPERTS = 2**16
BITS = 0x3000, 0x3F80  # the numbers from 5e-10 to 1, as the bits of bfloat16
BFLOAT16 = np.dtype("V2")  # .npy files have no bfloat16; they store it as two raw bytes
NONE = -1  # stands for an expert if this choice of the token was dropped
# Gates are often bfloat16, with a relative error of up to 1/256 in each gate and in their sum.
# The sums of logits, or of gates that are not normalised, differ from 1 by far more for some token.
TOLERANCE = 0.01
NO_GATES = (
    "gates must be probabilities that sum to 1 (or all 0, for a token that no expert took). If these are "
    "logits say from_logits=True; if they are gates that were not renormalised, divide them by their sum"
)


@dataclass(frozen=True)
class Shares:
    """Weights of some tokens for modules. They sum to 1 per token, or to 0 if the token was dropped."""

    weights: Array  # [T, k] for some modules, or [T, M] for all
    modules: Ints | None  # [T, k], the module of each weight; None for all
    num_modules: int  # M

    def sums(self, cell: Ints, num_cells: int) -> Array:
        """Return the weights summed by the tokens' cells `[T]`: `[num_cells, M]`."""
        if self.modules is None:
            return sum_rows(self.weights, cell, num_cells)
        place = cell[:, np.newaxis] * self.num_modules + self.modules
        sums = np.bincount(place.ravel(), self.weights.ravel(), num_cells * self.num_modules)
        return np.asarray(sums, np.float64).reshape(num_cells, self.num_modules)

    def sent(self) -> Ints:
        """Return how many tokens have a weight above 0 for each module `[M]`, whatever the weight."""
        assert self.modules is not None  # hard assignment always has them
        return np.bincount(self.modules[self.weights > 0], minlength=self.num_modules)


class GateLayer:
    """The gates or logits `[T, M]` of one layer."""

    def __init__(self, values: NDArray[Any], from_logits: bool, top_k: int | None):
        self.values, self.from_logits, self.top_k = values, from_logits, top_k
        self.num_modules = int(values.shape[1])
        self.module_numbers: Ints = np.arange(self.num_modules)

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, some: slice | Ints) -> NDArray[Any]:
        """Return the tokens' rows unchanged."""
        return from_bfloat16(self.values[some])

    def read(self, some: slice | Ints, first_token: int = 0) -> tuple[Shares, Shares]:
        """Return the gate mass of every module, and an even share for each of the k chosen (k = 1 for None).

        With `top_k` only the k largest gates of a token count, divided by their sum. This equals the softmax
        over the k largest logits. A choice of gate 0 does not count. A token whose gates are all 0 was
        dropped, for example because the modules' capacity was exceeded. `ValueError` if gates are not
        distributions, or logits are not finite; the message counts tokens from `first_token`.
        """
        values = self.rows(some)
        gates = values.astype(np.float32) if values.dtype.itemsize < 4 else values
        largest = gates.max(axis=1, keepdims=True)  # NaN if the row holds a NaN
        if self.from_logits:
            wrong = ~np.isfinite(largest[:, 0])
            _refuse(wrong, gates, first_token, "logits must be finite (or -inf: never chosen)")
        else:
            sums = gates.sum(axis=1, dtype=np.float64)
            _refuse(~np.isfinite(sums), gates, first_token, "gates must be finite")
            wrong = (np.abs(sums - 1.0) > TOLERANCE) & (sums != 0)
            _refuse(wrong | (gates.min(axis=1) < 0), gates, first_token, NO_GATES)
        k = self.top_k or 1
        if k == 1:
            chosen = gates.argmax(axis=1)[:, np.newaxis]
        elif k < self.num_modules:
            chosen = _largest(gates, k)
        else:
            chosen = np.tile(np.arange(self.num_modules), (len(gates), 1))
        kept = gates if self.top_k is None else np.take_along_axis(gates, chosen, axis=1)
        mass = kept.astype(np.float64)
        if self.from_logits:
            mass = np.exp(mass - largest)
        mass = _normalised(mass)
        picked = mass if self.top_k else np.take_along_axis(mass, chosen, axis=1)
        hard = _normalised((picked > 0).astype(np.float64))
        modules = None if self.top_k is None else chosen
        return Shares(mass, modules, self.num_modules), Shares(hard, chosen, self.num_modules)


class ExpertLayer:
    """The experts of one layer; see `Experts`.

    `read` counts modules from 0, without the shared experts. Module i is the expert `module_numbers[i]`.
    """

    def __init__(self, experts: Ints, weights: NDArray[Any] | None, module: Ints, top_k: int):
        self.experts, self.weights, self.top_k = experts, weights, top_k
        self._module = module  # of each expert, and NONE for NONE as the last entry
        self.module_numbers: Ints = np.flatnonzero(module != NONE)
        self.num_modules = len(self.module_numbers)
        # Whether weights have the shape of scores of all experts, too.
        shape = len(experts), len(module) - 1
        self.have_all = weights is not None and weights.shape == experts.shape == shape

    def __len__(self) -> int:
        return len(self.experts)

    def rows(self, some: slice | Ints) -> NDArray[Any]:
        """Return the experts of tokens, with their weights, if there are any, as further columns."""
        experts = self.experts[some]
        if self.weights is None:
            return experts
        return np.concatenate([experts, from_bfloat16(self.weights[some])], axis=1)

    def read(self, some: slice | Ints, first_token: int = 0) -> tuple[Shares, Shares]:
        """Return the gate mass of experts, and an even share for each expert that a token was sent to.

        A choice of weight 0 does not count. `ValueError` if a weight is negative or not finite; the message
        counts tokens from `first_token`.
        """
        experts = self.experts[some]
        modules = self._module[experts]
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
        mass, hard = _normalised(mass), _normalised(hard)
        return Shares(mass, taken, self.num_modules), Shares(hard, taken, self.num_modules)


Layer = GateLayer | ExpertLayer


class Gates:
    """Gates or logits of all modules for every token, see `measure_activations`.

    Args:
        values: `[tokens, M]`, `[layers, tokens, M]`, or a list of `[tokens, M]`, one per layer, if M differs.
        from_logits: whether these are logits, before the softmax.
        top_k: the number of modules per token, of which only the k largest count; None for all.

    Raises:
        ValueError: if an argument is invalid.
    """

    def __init__(self, values: ArrayLike, from_logits: bool = False, top_k: int | None = None):
        if not isinstance(from_logits, bool | np.bool_):
            raise ValueError(f"from_logits={from_logits!r} is not valid; expected True or False.")
        self.values = as_layers(values)
        kinds = [str(one.dtype) for one in self.values if one.dtype.kind != "f" and one.dtype != BFLOAT16]
        if from_logits and kinds:
            raise ValueError(
                f"logits are of type {kinds[0]}; expected floating-point numbers. Give the numbers of chosen "
                "experts as experts=.... Decode bfloat16 that was saved as 16-bit integers: "
                "(values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)."
            )
        fewest = min(one.shape[1] for one in self.values)
        if top_k is not None and check_integer("top_k", top_k, 1) > fewest:
            raise ValueError(f"top_k={top_k} is not valid; expected at most {fewest}, the number of experts.")
        self.from_logits, self.top_k = bool(from_logits), top_k
        self.layers: list[Layer] = [GateLayer(one, self.from_logits, top_k) for one in self.values]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of layers, of tokens, and of modules in the first layer."""
        return len(self.values), *self.values[0].shape

    def only(self, keep: NDArray[np.bool_]) -> "Gates":
        """Return the gates of the tokens where `keep` `[tokens]` is true."""
        return Gates([one[keep] for one in self.values], self.from_logits, self.top_k)


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
        self.num_experts = check_integer("num_experts", num_experts, 1, MOST_EXPERTS)
        ids = _check_ids(experts, self.num_experts)
        mass = None if weights is None else _check_weights(weights, ids, self.num_experts)
        self.shared = check_shared(shared, self.num_experts)
        _check_sent_to_all(self.shared, ids)
        self.top_k = ids.shape[-1] - len(set(self.shared))
        if self.top_k < 1:
            raise ValueError(
                f"shared holds all {ids.shape[-1]} experts of a token, so no expert was chosen. Give only "
                "the shared experts."
            )
        self.experts = ids[np.newaxis] if ids.ndim == 2 else ids
        self.weights = mass[np.newaxis] if mass is not None and mass.ndim == 2 else mass
        module = np.full(self.num_experts + 1, NONE)
        kept = without_shared(self.num_experts, self.shared)
        module[kept] = np.arange(len(kept))
        masses = [None] * len(self.experts) if self.weights is None else self.weights
        self.layers: list[Layer] = [
            ExpertLayer(*layer, module, self.top_k) for layer in zip(self.experts, masses, strict=True)
        ]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of layers, of tokens and of experts, with the shared ones."""
        return *self.experts.shape[:2], self.num_experts

    def only(self, keep: NDArray[np.bool_]) -> "Experts":
        """Return the experts of the tokens where `keep` `[tokens]` is true."""
        weights = None if self.weights is None else self.weights[:, keep]
        return Experts(self.experts[:, keep], self.num_experts, weights, self.shared)


def layers_of(activations: Any, from_logits: bool = False, top_k: int | None = None) -> list[Layer]:
    """Return the layers of activations as in `modtf.measure_activations`, except for chunks."""
    if not isinstance(activations, Gates | Experts):
        return Gates(activations, from_logits, top_k).layers
    if from_logits or top_k not in (None, activations.top_k):
        what = "gates" if isinstance(activations, Gates) else f"{activations.top_k} experts"
        raise ValueError(
            f"This chunk holds {what} for each token, to which from_logits and top_k do not apply. Leave "
            "them out, and give all chunks in the same form."
        )
    return activations.layers


def choices_of(layer: Layer, some: Ints) -> tuple[Ints, Ints]:
    """Return the token `[N]` and expert `[N]` of each choice of the tokens `some`, renumbered from 0."""
    hard = layer.read(some)[1]
    token, choice = np.nonzero(hard.weights)
    assert hard.modules is not None  # hard assignment always has them
    return token, hard.modules[token, choice]


def as_layers(activations: ArrayLike) -> list[NDArray[Any]]:
    """Return activations as one array `[tokens, M]` per layer; `ValueError` if they are invalid."""
    check_no_none("activations", activations)
    if isinstance(activations, list | tuple) and {dimensions(part) for part in activations} == {2}:
        layers = [as_numbers(part, "activations") for part in activations]  # M may differ
        if len({len(layer) for layer in layers}) > 1:
            raise ValueError(
                f"The layers have {', '.join(str(len(layer)) for layer in layers)} tokens; expected the "
                "same number."
            )
    else:
        array = as_numbers(activations, "activations")
        layers = list(array) if array.ndim == 3 else [array]
    if not layers or any(layer.ndim != 2 or layer.shape[1] == 0 for layer in layers):
        raise ValueError(
            f"activations have shape {np.shape(activations)}; expected [tokens, modules] or [layers, tokens, "
            "modules], or a list of [tokens, modules]. Flatten batch and sequence into tokens: "
            "activations.reshape(-1, modules)."
        )
    return layers


def as_numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array of numbers, or of bfloat16 in raw bytes; `ValueError` for anything else."""
    try:
        array = real(values)
        if array.dtype.kind not in "fiub" and array.dtype != BFLOAT16:  # lists of tensors, bfloat16, ...
            array = array.astype(np.float64 if array.dtype.kind == "O" else np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    return array


def dimensions(thing: Any) -> int:
    """Return the number of dimensions of an array or nested lists; -1 if they are ragged."""
    try:
        return np.ndim(thing)
    except ValueError:
        return -1


def from_bfloat16(values: NDArray[Any]) -> NDArray[Any]:
    """Return bfloat16 (two raw bytes in files) as float32, and other numbers unchanged."""
    if values.dtype != BFLOAT16:
        return values
    return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def check_no_none(what: str, layers: Any) -> None:
    """Raise `ValueError` if a layer is None, as layers without a router are in the outputs of models."""
    if isinstance(layers, list | tuple) and any(layer is None for layer in layers):
        place = next(i for i, layer in enumerate(layers) if layer is None)
        raise ValueError(f"{what} has None as layer {place}. Leave out layers without a router.")


def check_shared(shared: ArrayLike, num_experts: int) -> tuple[int, ...]:
    """Return the numbers of shared experts. Raise `ValueError` unless they are experts."""
    listed = as_array(shared, "shared", "iu").ravel().tolist()
    if wrong := [one for one in listed if one not in range(num_experts)]:
        raise ValueError(f"shared holds {wrong[0]}; expected experts below num_experts={num_experts}.")
    return tuple(listed)


def without_shared(num_experts: int, shared: Sequence[int]) -> Ints:
    """Return the numbers of the experts below `num_experts` that are not shared."""
    return np.delete(np.arange(num_experts), list(shared))


def sum_rows(rows: Array, cell: Ints, num_cells: int) -> Array:
    """Return the sums `[num_cells, M]` of the rows `[T, M]` with the same cell number in `cell [T]`."""
    from scipy.sparse import csc_array  # slow to import

    num_rows = len(rows)
    # With one entry per column, the product reads each row once and needs no sorting.
    one = csc_array((np.ones(num_rows), cell, np.arange(num_rows + 1)), shape=(num_cells, num_rows))
    return np.asarray(one @ rows)


def _largest(gates: NDArray[Any], k: int) -> Ints:
    """Return the k modules with the largest gates `[T, k]`, in the order of their numbers.

    Ties go to the first module. Gates in bfloat16 are often equal, and `argpartition` takes any of these.
    """
    chosen = np.argpartition(gates, -k, axis=1)[:, -k:]
    fewest = np.take_along_axis(gates, chosen, axis=1).min(axis=1, keepdims=True)
    tied = np.count_nonzero(gates >= fewest, axis=1) > k
    if tied.any():
        chosen[tied] = np.argsort(-gates[tied].astype(np.float64), axis=1, kind="stable")[:, :k]
    return np.asarray(np.sort(chosen, axis=1))


def _normalised(weights: Array) -> Array:
    """Return the rows divided by their sums; a row of zeros is unchanged."""
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1.0))


def _refuse(wrong: NDArray[np.bool_], values: NDArray[Any], first_token: int, what: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        row = np.array2string(values[index].astype(np.float64), precision=3, threshold=6, edgeitems=3)
        raise ValueError(
            f"Activations of token {first_token + index} are {row}, with sum {values[index].sum():.4g}: "
            f"{what}."
        )


def as_array(values: Any, name: str = "arrays", kinds: str = "") -> NDArray[Any]:
    """Return a tensor of any precision, an array or nested lists as an array, of some `kinds` of numbers.

    Raise `ValueError` if lists hold truth values among numbers: NumPy would read JSON's `true` as 1; or if
    the array is masked: NumPy would read the values that the mask hides.
    """
    check_no_none(name, values)
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(
            f"{name} are masked. Replace the masked experts by experts.filled(-1), and weights by "
            "weights.filled(0)."
        )
    values = from_tensor(values)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    if array.dtype.kind != "b" and _holds_truth_value(values):
        raise ValueError(f"{name} hold true or false among numbers; expected numbers alone.")
    is_kind = array.dtype.kind in kinds or (array.dtype == BFLOAT16 and "f" in kinds)
    if kinds and array.size and not is_kind:
        expected = "integers" if "f" not in kinds else "numbers"
        raise ValueError(f"{name} are of type {array.dtype}; expected {expected}.")
    return array


def _holds_truth_value(values: Any) -> bool:
    if isinstance(values, list | tuple):
        return any(map(_holds_truth_value, values))
    return isinstance(values, bool)


def _check_ids(experts: ArrayLike, num_experts: int) -> NDArray[Any]:
    ids = as_array(experts, "experts", "iu")
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
        wrong = int(ids.min() if ids.min() < NONE else ids.max())
        hint = " If experts are numbered from 1, subtract 1." if wrong == num_experts else ""
        if wrong < NONE:
            size = next((one for one in (8, 16, 32) if -(2 ** (one - 1)) <= wrong), 64)
            hint = (
                f" It looks like an overflow: {2**size + wrong} stored as int{size} becomes {wrong}. Save "
                f"experts as int{2 * size}. If it marks a dropped choice, write -1."
            )
        raise ValueError(
            f"experts hold {wrong}; expected numbers below num_experts={num_experts}, from 0, or -1 for a "
            f"dropped choice.{hint}"
        )
    return ids


def _check_weights(weights: ArrayLike, ids: NDArray[Any], num_experts: int) -> NDArray[Any]:
    mass = as_array(weights, "weights", "fiu")
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


def _check_sent_to_all(shared: Sequence[int], ids: NDArray[Any]) -> None:
    """Raise `ValueError` if a shared expert is missing in all layers, or for some tokens of a layer.

    A layer without it is a placeholder for a dense layer.
    """
    if not shared:
        return
    routed = (ids != NONE).any(axis=-1)
    for one in shared:
        number = (ids == one).any(axis=-1).sum(axis=-1)
        wrong = (number > 0) & (number < routed.sum(axis=-1))
        if wrong.any() or (routed.any() and not number.any()):
            raise ValueError(
                f"shared holds {one}, but only {number.sum()} of {routed.sum()} rows of experts hold it; "
                "expected an expert that every token goes to. Leave out shared if experts holds none."
            )
