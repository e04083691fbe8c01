"""Gates or logits of one layer: the gate mass of every module, and the modules that are chosen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.measuring.checks import Ints

# Gates are often bfloat16, with a relative error of up to 1/256 in each gate and in their sum.
# The sums of logits, or of gates that are not normalised, differ from 1 by far more for some token.
TOLERANCE = 0.01
NO_GATES = (
    "gates must be probabilities that sum to 1 (or all 0, for a token that no module took). If these are "
    "logits say from_logits=True; if they are gates that were not renormalised, divide them by their sum"
)


@dataclass(frozen=True)
class Tokens:
    """Weights of some tokens for modules. They sum to 1 per token, or to 0 if the token was dropped."""

    weights: Array  # [T, k] for some modules, or [T, M] for all
    modules: Ints | None  # [T, k], the module of each weight; None for all
    num_modules: int  # M

    def sums(self, cell: Ints, num_cells: int) -> Array:
        """Return the weights summed by the tokens' cells `[T]`: `[num_cells, M]`."""
        weights = self.weights
        if self.modules is None:
            return sum_rows(weights, cell, num_cells)
        place = cell[:, np.newaxis] * self.num_modules + self.modules
        sums = np.bincount(place.ravel(), weights.ravel(), num_cells * self.num_modules)
        return np.asarray(sums, np.float64).reshape(num_cells, self.num_modules)

    def sent(self) -> Ints:
        """Return how many tokens have a weight above 0 for each module `[M]`, whatever the weight."""
        assert self.modules is not None  # hard assignment always has them
        return np.bincount(self.modules[self.weights > 0], minlength=self.num_modules)


@dataclass(frozen=True)
class Gates:
    """Gates or logits `[T, M]` of one layer, see `modtf.measure_activations`."""

    values: NDArray[Any]
    from_logits: bool
    top_k: int | None

    @property
    def num_modules(self) -> int:
        """The number of modules M."""
        return int(self.values.shape[1])

    @property
    def module_numbers(self) -> Ints:
        """The numbers of the modules `[M]`."""
        return np.arange(self.num_modules)

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, some: slice | Ints) -> NDArray[Any]:
        """Return the tokens' rows unchanged."""
        return self.values[some]

    def read(self, some: slice | Ints, first_token: int = 0) -> tuple[Tokens, Tokens]:
        """Return the gate mass of every module, and an even share for each of the k chosen (k = 1 for None).

        With `top_k` only the k largest gates of a token count, divided by their sum. This equals the softmax
        over the k largest logits. A choice of gate 0 does not count. A token whose gates are all 0 was
        dropped, for example because the modules' capacity was exceeded. `ValueError` if gates are not
        distributions, or logits are not finite; the message counts tokens from `first_token`.
        """
        values = self.values[some]
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
        mass = shares(mass)
        picked = mass if self.top_k else np.take_along_axis(mass, chosen, axis=1)
        hard = shares((picked > 0).astype(np.float64))
        modules = None if self.top_k is None else chosen
        return Tokens(mass, modules, self.num_modules), Tokens(hard, chosen, self.num_modules)


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


def shares(weights: Array) -> Array:
    """Return the rows divided by their sums; a row of zeros is unchanged."""
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1.0))


def sum_rows(rows: Array, cell: Ints, num_cells: int) -> Array:
    """Return the sums `[num_cells, M]` of the rows `[T, M]` with the same cell number in `cell [T]`."""
    from scipy.sparse import csc_array  # slow to import

    num_rows = len(rows)
    # With one entry per column, the product reads each row once and needs no sorting.
    one = csc_array((np.ones(num_rows), cell, np.arange(num_rows + 1)), shape=(num_cells, num_rows))
    return np.asarray(one @ rows)


def _refuse(wrong: NDArray[np.bool_], values: NDArray[Any], first_token: int, what: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        row = np.array2string(values[index].astype(np.float64), precision=3, threshold=6, edgeitems=3)
        raise ValueError(
            f"Activations of token {first_token + index} are {row}, with sum {values[index].sum():.4g}: "
            f"{what}."
        )
