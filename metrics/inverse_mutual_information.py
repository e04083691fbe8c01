"""Inverse mutual information: the share of the rule's information that the choice of module does not tell."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import can_specialise, checked
from modtf.metrics.distributions import entropy
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
    """1 - I(m; r) / min(H(r), log M); for uniform rules 1 - I(m; r) / log min(R, M).

    The published formula divides by log R, the most that a module can tell of R equally likely rules when
    there are R modules. In general I(m; r) <= H(r), as nothing can tell more of the rule than there is, and
    I(m; r) <= H(m) <= log M, as one of M modules cannot tell more than log M. The smaller bound is the
    denominator, so that a few modules are not blamed for what they cannot tell: the value stays the same when
    every rule is split into k equal ones, or when modules are added that are never used. 0 is reached when
    M >= R, and for uniform rules when M divides R: otherwise equal use of the modules is out of reach, and
    the best is the even match of `alignment` (R = 3, M = 2: 0.08). With more modules than rules, a rule
    spread over modules of its own still counts as told.

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
    A, probs = checked(A, rule_probs)
    most = min(entropy(probs), np.log(A.shape[1]))
    if not can_specialise(A) or most == 0.0:
        return float("nan")
    # H(m) - H(m | r): no quotient of two small probabilities, so nothing overflows.
    information = entropy(probs @ A) - probs @ entropy(A)
    return float(np.clip(1.0 - information / most, 0.0, 1.0))
