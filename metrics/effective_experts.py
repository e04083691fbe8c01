"""Effective experts: the number of modules in use."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array, entropy
from modtf.metrics.registry import register_measure


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
