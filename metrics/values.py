"""Every registered measure of one activation matrix, or of a population's."""

from collections.abc import Iterable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import can_specialise, check_activation_matrix, check_rule_probs
from modtf.metrics.distributions import Array, as_numbers, check_distributions
from modtf.metrics.registry import activation_measures


def measure_all(
    A: ArrayLike,
    usage: ArrayLike | None = None,
    rule_probs: ArrayLike | None = None,
    *,
    rule_frequencies: ArrayLike | None = None,
    groups: Iterable[str] | None = None,
) -> dict[str, float]:
    """Return every registered measure of an activation matrix.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        usage: measured module use `[K, M]` under the first K of `rule_distributions`, for `adaptation`;
            without it, p @ A is used.
        rule_probs: p(r) `[R]`, uniform by default. `adaptation` does not depend on it.
        rule_frequencies: `[K, R]`, the frequency of each rule among the tokens of `usage`.
        groups: groups of measures; by default collapse, specialisation and all that users register.
            `groups=GROUPS` adds modtf's diagnostics.

    Returns:
        name -> value, in the order of the registry. All values are NaN for one module (the monolithic model)
        or one rule, because some formulas would call a single module perfect.

    Raises:
        ValueError: if A is not an activation matrix, a group is unknown, usage, rule_probs or
            rule_frequencies do not fit, or a measure does not return a number.

    Example:
        >>> measure_all([[1, 0], [0, 1]])["alignment"]
        0.0
    """
    A = check_activation_matrix(A)
    if rule_probs is not None:
        rule_probs = check_rule_probs(rule_probs, len(A))
    statistics = {"usage": usage, "rule_probs": rule_probs, "rule_frequencies": rule_frequencies}
    values: dict[str, float] = {}
    for measure in activation_measures(groups):
        assert measure.function is not None  # holds for every activation measure
        arguments = {name: value for name, value in statistics.items() if measure.accepts(name)}
        value = measure.function(A, **arguments) if can_specialise(A) else float("nan")
        if not isinstance(value, Real):
            raise ValueError(f"The measure {measure.name!r} returned {value!r}; expected a number.")
        values[measure.name] = float(value)
    return values


def measure_population(
    A: ArrayLike,
    usage: ArrayLike | None = None,
    rule_probs: ArrayLike | None = None,
    *,
    rule_frequencies: ArrayLike | None = None,
    groups: Iterable[str] | None = None,
) -> dict[str, Array]:
    """Return `measure_all` of every member of a population.

    Args:
        A: activation matrices `[P, R, M]`.
        usage: `[P, K, M]`, see `measure_all`.
        rule_probs: p(r) `[R]` for all members or `[P, R]`, uniform by default.
        rule_frequencies: `[P, K, R]`, see `measure_all`.
        groups: see `measure_all`.

    Returns:
        name -> float64 values `[P]`.

    Raises:
        ValueError: if A is not P activation matrices, or another argument does not fit it.

    Example:
        >>> measure_population(np.stack([np.eye(2), np.full((2, 2), 0.5)]))["alignment"].tolist()
        [0.0, 0.5]
    """
    matrices = check_distributions(A, "The activation matrices [members, rules, modules]", ndim=3)
    num_members = len(matrices)
    by_member: dict[str, Array] = {}
    statistics = {"usage": usage, "rule_probs": rule_probs, "rule_frequencies": rule_frequencies}
    for name, values in statistics.items():
        if values is None:
            continue
        array = as_numbers(values, name)
        if name == "rule_probs" and array.ndim == 1:
            array = np.tile(array, (num_members, 1))
        if array.ndim == 0 or len(array) != num_members:
            raise ValueError(
                f"{name} has shape {array.shape}; expected one entry per member ({num_members})."
            )
        by_member[name] = array
    rows = [
        measure_all(A, groups=groups, **{name: array[i] for name, array in by_member.items()})
        for i, A in enumerate(matrices)
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def measure_stack(A: Array, probs: Array, groups: Iterable[str]) -> dict[str, Array]:
    """Return every registered measure `[N]` of checked activation matrices `[N, R, M]` with p(rule) `[R]`.

    One call per matrix would take most of the time of a measurement, for calls and checks. Measures without a
    `formula`, as users register them, are called for one matrix at a time.
    """
    values: dict[str, Array] = {}
    for measure in activation_measures(groups):
        if min(A.shape[1:]) < 2:
            values[measure.name] = np.full(len(A), np.nan)
        elif measure.formula is not None:
            values[measure.name] = measure.formula(A, probs)
        else:
            assert measure.function is not None  # holds for every activation measure
            more = {"rule_probs": probs} if measure.accepts("rule_probs") else {}
            values[measure.name] = np.array([float(measure.function(one, **more)) for one in A])
    return values
