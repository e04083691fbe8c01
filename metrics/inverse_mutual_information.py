"""Inverse mutual information: the share of the rule's information that the choice of module does not tell."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import can_specialise, check_activation_matrix, check_rule_probs
from modtf.metrics.distributions import Array
from modtf.metrics.registry import register_measure


@register_measure(
    "inverse_mutual_information",
    group="specialisation",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Share of the rule's information that the module does not tell: 0 all told, 1 none.",
    axis_label="Inverse mutual information",
)
def inverse_mutual_information(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """1 - I(m; r) / H(r), where H(r) = log R for uniform rules.

    With fewer modules than rules the module cannot tell the rule: no less than 1 - log M / log R is reached
    under uniform rules. With more modules, a rule spread over modules of its own still counts as told.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is perfect; NaN for one module, one rule, or rule_probs that leave only one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> inverse_mutual_information([[1, 0], [0, 1]])
        0.0

    Source: Mittal et al. (2022), Inverse Mutual Information.
    """
    A = check_activation_matrix(A)
    probs = check_rule_probs(rule_probs, len(A))
    rule_entropy = _entropy(probs)
    if not can_specialise(A) or rule_entropy == 0.0:
        return float("nan")
    # H(m) - H(m | r): no quotient of two small probabilities, so nothing overflows.
    information = _entropy(probs @ A) - sum(p * _entropy(row) for p, row in zip(probs, A, strict=True))
    return float(np.clip(1.0 - information / rule_entropy, 0.0, 1.0))


def _entropy(p: Array) -> float:
    positive = p[p > 0.0]
    return float(-(positive * np.log(positive)).sum())
