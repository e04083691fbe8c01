"""Collapse: how far the less used modules, and the least used one, are below an equal share."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array
from modtf.metrics.registry import register_measure


def _collapse_avg(A: Array, probs: Array) -> Array:
    number = A.shape[-1]
    shortfall = np.maximum(0.0, 1.0 / number - probs @ A).sum(axis=-1)
    return np.clip(shortfall * number / (number - 1), 0.0, 1.0)


@register_measure(
    "collapse_avg",
    group="collapse",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Shortfall of the under-used modules: 0 all used equally, 1 one module does everything.",
    formula=_collapse_avg,
    axis_label="Collapse (average)",
    needs_labels=False,
)
def collapse_avg(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return M/(M-1) * sum_m max(0, 1/M - p(m)), with p(m) the share of tokens of module m.

    The published formula has R in place of M, which is the same number there. An equal share is 1/M whatever
    the number of rules. The sum is largest if one module does everything: M - 1 modules are then short of 1/M
    each, so M/(M-1) keeps the range 0..1. With more modules than rules, one module per rule leaves modules
    unused, which counts as collapse. The value is then (M - R) / (M - 1), and only rules that are spread over
    several modules reach 0.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default. Under unequal probabilities even one module per rule does
            not score 0, because its load is not balanced.

    Returns:
        0..1, 0 is perfect; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> collapse_avg([[1, 0], [1, 0]])
        1.0

    Source: Mittal et al. (2022), Collapse-Avg.
    """
    return value_of(_collapse_avg, A, rule_probs)


def _collapse_worst(A: Array, probs: Array) -> Array:
    return np.clip(1.0 - A.shape[-1] * (probs @ A).min(axis=-1), 0.0, 1.0)


@register_measure(
    "collapse_worst",
    group="collapse",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Shortfall of the least used module: 0 all used equally, 1 a module is never used.",
    formula=_collapse_worst,
    axis_label="Collapse (worst)",
    needs_labels=False,
)
def collapse_worst(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return 1 - M min_m p(m), with p(m) the share of tokens of module m.

    The published formula has R in place of M. The reason is the same as in `collapse_avg`: the least used of
    M modules has at most 1/M. With more modules than rules, one module per rule scores 1.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is perfect; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> collapse_worst([[1.0, 0.0], [0.5, 0.5]])
        0.5

    Source: Mittal et al. (2022), Collapse-Worst.
    """
    return value_of(_collapse_worst, A, rule_probs)
