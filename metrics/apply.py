"""Every registered measure of one activation matrix, or of a population's."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import check_activation_matrix
from modtf.metrics.distributions import Array, as_numbers, check_distributions
from modtf.metrics.registry import activation_measures


def measure_all(
    A: ArrayLike, usage: ArrayLike | None = None, rule_probs: ArrayLike | None = None
) -> dict[str, float]:
    """Every registered measure of an activation matrix.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        usage: measured module use `[K, M]` under the first K of `rule_distributions`, for `adaptation`;
            without it, use is p @ A.
        rule_probs: p(r) `[R]`, uniform by default. `adaptation` does not depend on it.

    Returns:
        name -> value, in the order of the registry. All NaN for one module (the monolithic model) or one
        rule: some formulas would call a single module perfect.

    Raises:
        ValueError: if A is no activation matrix, or usage or rule_probs do not fit it.

    Example:
        >>> measure_all([[1, 0], [0, 1]])["alignment"]
        0.0
    """
    A = check_activation_matrix(A)
    given = {"usage": usage, "rule_probs": rule_probs}
    values = {}
    for measure in activation_measures():
        assert measure.function is not None  # holds for every activation measure
        arguments = {name: value for name, value in given.items() if measure.accepts(name)}
        values[measure.name] = measure.function(A, **arguments)
    return values


def measure_population(
    A: ArrayLike, usage: ArrayLike | None = None, rule_probs: ArrayLike | None = None
) -> dict[str, Array]:
    """`measure_all` of every member of a population.

    Args:
        A: activation matrices `[P, R, M]`.
        usage: `[P, K, M]`, see `measure_all`.
        rule_probs: p(r) `[R]` for all members or `[P, R]`, uniform by default.

    Returns:
        name -> float64 values `[P]`.

    Raises:
        ValueError: if A is not P activation matrices, or usage or rule_probs do not fit it.

    Example:
        >>> measure_population(np.stack([np.eye(2), np.full((2, 2), 0.5)]))["alignment"].tolist()
        [0.0, 0.5]
    """
    matrices = check_distributions(A, "The activation matrices [members, rules, modules]", ndim=3)
    num_members = len(matrices)
    usages = _per_member(usage, "usage", num_members)
    if rule_probs is not None and np.ndim(rule_probs) == 1:
        rule_probs = np.tile(np.asarray(rule_probs), (num_members, 1))
    all_rule_probs = _per_member(rule_probs, "rule_probs", num_members)
    rows = [measure_all(*member) for member in zip(matrices, usages, all_rule_probs, strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _per_member(values: ArrayLike | None, name: str, num_members: int) -> list[Array | None]:
    if values is None:
        return [None] * num_members
    array = as_numbers(values, name)
    if array.ndim == 0 or len(array) != num_members:
        raise ValueError(f"{name} has shape {array.shape}; expected one entry per member ({num_members}).")
    return list(array)
