"""The load of the modules: how unequal it is, and how many of them are in use."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array, entropy
from modtf.metrics.registry import register_measure


def _load_variation(A: Array, probs: Array) -> Array:
    use = probs @ A
    return np.asarray(use.std(axis=-1) / use.mean(axis=-1))


@register_measure(
    "load_variation",
    group="diagnostic",
    range=(0.0, np.inf),
    perfect=0.0,
    description="Coefficient of variation of module use: 0 all used equally.",
    formula=_load_variation,
    axis_label="Load variation",
    needs_labels=False,
)
def load_variation(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return the standard deviation of p(m) over modules, divided by its mean 1/M: sqrt(M sum_m p(m)^2 - 1).

    This is the coefficient of variation of the load; sparse mixtures of experts penalise its square. It
    measures the same as `collapse_avg`, but weights overloaded modules more.

    What fools it: it ignores the rules, so random routing scores 0, as a perfect router does. Under unequal
    rules a perfect router does not score 0. The largest value, sqrt(M - 1), grows with M: compare only models
    with equally many modules.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..sqrt(M - 1), 0 is balanced; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> load_variation([[1, 0], [1, 0]])
        1.0

    Source: N. Shazeer et al. (2017), "Outrageously Large Neural Networks: The Sparsely-Gated
    Mixture-of-Experts Layer", section 4.
    """
    return value_of(_load_variation, A, rule_probs)


def _effective_experts(A: Array, probs: Array) -> Array:
    return np.clip(np.exp(entropy(probs @ A)), 1.0, A.shape[-1])


@register_measure(
    "effective_experts",
    group="diagnostic",
    range=(1.0, np.inf),
    perfect=None,  # M
    smaller_is_better=False,
    description="Number of equally used modules with the same entropy of use: 1 one does everything.",
    formula=_effective_experts,
    axis_label="Effective experts",
    needs_labels=False,
)
def effective_experts(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return exp H(m), with H(m) the entropy of the modules' shares of tokens p(m).

    What fools it: random routing scores M, as a perfect router does. Rarely used modules hardly count, so one
    dead module among many goes unnoticed (`collapse_worst` shows it).

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        1..M, M if all modules are used equally; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> round(effective_experts([[1, 0, 0], [0, 1, 0]]), 6)
        2.0

    Source: M. O. Hill (1973), "Diversity and Evenness: A Unifying Notation and Its Consequences", the number
    of order 1.
    """
    return value_of(_effective_experts, A, rule_probs)
