"""Routing entropy: the number of modules over which a rule is spread."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array, entropy
from modtf.metrics.registry import register_measure


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
