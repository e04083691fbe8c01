"""The activation matrix `A [R, M]`, A_rm = p(module m | rule r), its checks and its load."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.base.checks import check_integer
from modtf.base.memory import check_fits
from modtf.metrics.distributions import Array, as_numbers, check_distributions, first_index, show_index
from modtf.metrics.registry import Formula


def check_activation_matrix(matrix: ArrayLike) -> Array:
    """Return an activation matrix as float64 `[R, M]`, with its rows renormalised.

    Row sums may differ from 1 by `TOLERANCE` (0.001), which covers float32 accumulation on a device.

    Raises:
        ValueError: if it is not two-dimensional, empty, not finite or negative, or if its rows do not sum to
            1.

    Example:
        >>> check_activation_matrix([[1, 0], [0.5, 0.5]]).shape
        (2, 2)
    """
    name = "The activation matrix [rules, modules]"
    array = as_numbers(matrix, name)
    if array.ndim == 3:
        raise ValueError(
            f"{name} has shape {array.shape}; expected 2 dimensions. "
            "For the matrices of a population [members, rules, modules] use modtf.metrics.measure_population."
        )
    return check_distributions(array, name, ndim=2)


def check_rule_probs(rule_probs: ArrayLike | None, num_rules: int) -> Array:
    """Return p(r) as float64 `[R]`, uniform for None; raise `ValueError` if it is not a distribution."""
    if rule_probs is None:
        return np.full(num_rules, 1.0 / num_rules)
    probs = check_distributions(rule_probs, "rule_probs", ndim=1)
    if probs.size != num_rules:
        raise ValueError(
            f"rule_probs has {probs.size} entries, but the activation matrix has {num_rules} rules (rows)."
        )
    return probs


def checked(A: ArrayLike, rule_probs: ArrayLike | None) -> tuple[Array, Array]:
    """Return A and p(r), checked by the two functions above."""
    matrix = check_activation_matrix(A)
    return matrix, check_rule_probs(rule_probs, len(matrix))


def from_counts(sums: ArrayLike, counts: ArrayLike) -> Array:
    """Return the activation matrix from activations summed per rule.

    Args:
        sums: `[..., R, M]`, the sum of the activation probabilities of all tokens of a rule.
        counts: `[..., R]`, the number of these tokens.

    Returns:
        float64 `[..., R, M]`, with rows renormalised.

    Raises:
        ValueError: if the shapes do not match, a rule never occurs, or the rows of the quotient do not sum
            to 1 (see `check_distributions`).

    Example:
        >>> from_counts([[3.0, 1.0], [0.0, 2.0]], [4, 2]).tolist()
        [[0.75, 0.25], [0.0, 1.0]]
    """
    sums = as_numbers(sums, "sums")
    counts = as_numbers(counts, "counts")
    if sums.ndim < 2 or sums.shape[:-1] != counts.shape:
        raise ValueError(
            f"sums has shape {sums.shape} and counts {counts.shape}; expected [..., R, M] and [..., R]."
        )
    if not (counts > 0).all():
        index = first_index(~(counts > 0))
        raise ValueError(
            f"counts is {counts[index]:g} for rule {show_index(index)}: its row of the matrix is undefined. "
            "Evaluate more tokens (modtf run: --set evaluation.tokens=N), or leave out the rule in sums and "
            "counts."
        )
    return check_distributions(sums / counts[..., np.newaxis], "sums / counts")


def uniform_activation(num_rules: int, num_modules: int | None = None) -> Array:
    """Return the activation matrix of random routing, the baseline row `random`: all entries are 1/M.

    Raises:
        ValueError: if there is not at least one rule and one module, or if the matrix does not fit into
            memory.
    """
    num_rules = check_integer("num_rules", num_rules, 1)
    num_modules = num_rules if num_modules is None else check_integer("num_modules", num_modules, 1)
    size = np.dtype(np.float64).itemsize * num_rules * num_modules
    check_fits(f"num_rules={num_rules}, num_modules={num_modules}", {"matrix": size}, "Take fewer of both.")
    return np.full((num_rules, num_modules), 1.0 / num_modules)


def can_specialise(A: Array) -> bool:
    """Return whether there are at least two rules and two modules. With fewer, every measure is NaN."""
    return min(A.shape) >= 2


def value_of(formula: Formula, A: ArrayLike, rule_probs: ArrayLike | None) -> float:
    """Return the value of a formula for one activation matrix; NaN for one module or one rule."""
    A, probs = checked(A, rule_probs)
    return float(formula(A, probs)) if can_specialise(A) else float("nan")


def module_use(A: ArrayLike, rule_probs: ArrayLike | None = None) -> Array:
    """Return p(m) `[M]`, the share of tokens of each module if rules have probabilities `rule_probs [R]`.

    The rules are uniform for None.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.
    """
    A, probs = checked(A, rule_probs)
    return np.asarray(probs @ A)
