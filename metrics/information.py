"""Information that modules lack about rules, and the number of modules over which a rule is spread."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array, entropy
from modtf.metrics.registry import register_measure


def _inverse_mutual_information(A: Array, probs: Array) -> Array:
    most = min(float(entropy(probs)), np.log(A.shape[-1]))
    if most == 0.0:
        return np.full(A.shape[:-2], np.nan)
    # H(m) - H(m | r): without a quotient of two small probabilities, nothing overflows.
    information = entropy(probs @ A) - entropy(A) @ probs
    return np.clip(1.0 - information / most, 0.0, 1.0)


@register_measure(
    "inverse_mutual_information",
    group="specialisation",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Share of the rule's information that the module does not carry: 0 it carries all, 1 none.",
    formula=_inverse_mutual_information,
    axis_label="Inverse mutual information",
)
def inverse_mutual_information(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return 1 - I(m; r) / min(H(r), log M); for uniform rules 1 - I(m; r) / log min(R, M).

    The published formula divides by log R, the largest information of R modules about R equally likely rules.
    In general I(m; r) <= H(r), and I(m; r) <= H(m) <= log M. The denominator is the smaller bound, so that a
    model with few modules is not penalised for information that it cannot carry. The value stays the same if
    every rule is split into k equal ones, or if unused modules are added. 0 is reached if M >= R, and for
    uniform rules if M divides R. Otherwise equal load cannot be reached, and the best is the even match of
    `alignment` (R = 3, M = 2: 0.08). With more modules than rules, a rule that is spread over its own modules
    loses no information.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is perfect; NaN for one module, one rule, or rule_probs with only one possible rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> inverse_mutual_information([[1, 0], [0, 1]])
        0.0

    Source: Mittal et al. (2022), Inverse Mutual Information.
    """
    return value_of(_inverse_mutual_information, A, rule_probs)


def _routing_entropy(A: Array, probs: Array) -> Array:
    return np.clip(entropy(A) @ probs / np.log(A.shape[-1]), 0.0, 1.0)


@register_measure(
    "routing_entropy",
    group="diagnostic",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Entropy of the modules that serve a rule: 0 every rule has one module, 1 all alike.",
    formula=_routing_entropy,
    axis_label="Routing entropy",
)
def routing_entropy(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return sum_r p(r) H(m | r) / log M: the mean entropy of a rule's row, as a share of its maximum.

    What fools it: one module that does everything scores 0, as a perfect router does. Read it together with
    `effective_experts`; the difference of the two entropies is the mutual information. With fewer rules than
    modules, a rule that is spread over its own modules does not score 0, although no module is shared. The
    entropy is not that of single tokens: a router that is decisive for every token, but not by the rule,
    scores high.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is decisive; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> routing_entropy([[0.5, 0.5], [1, 0]])
        0.5

    Source: B. Mustafa et al. (2022), "Multimodal Contrastive Learning with LIMoE: the Language-Image Mixture
    of Experts" (entropy of the mean routing of a modality, here of a rule).
    """
    return value_of(_routing_entropy, A, rule_probs)
