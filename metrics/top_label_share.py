"""Top-label share: how exclusive a module is to its most frequent rule."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array
from modtf.metrics.registry import register_measure


def _top_label_share(A: Array, probs: Array) -> Array:
    return np.clip((probs[:, np.newaxis] * A).max(axis=-2).sum(axis=-1), 0.0, 1.0)


@register_measure(
    "top_label_share",
    group="diagnostic",
    range=(0.0, 1.0),
    perfect=1.0,
    smaller_is_better=False,
    description="Share of the most frequent rule among each module's tokens: 1 every module serves one rule.",
    formula=_top_label_share,
    axis_label="Top-label share",
)
def top_label_share(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return sum_m max_r p(r) A_rm, the mean of max_r p(r | m) over modules, weighted by their load p(m).

    This is the accuracy of guessing the rule from the module; for clusters it is called purity. It is
    weighted by load, because the modules that look most exclusive have the fewest tokens. Unweighted, a
    module that was used once scores 1.

    What fools it: unequal rules raise it. For any router, the share is at least that of the most frequent
    rule, max_r p(r). It does not show whether a rule is spread over many modules: with one module per token
    it is 1. With M < R equally frequent rules it is at most M/R.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        max p(r)..1, 1 is pure; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> top_label_share([[0.75, 0.25], [0.25, 0.75]])
        0.75

    Source: C. D. Manning, P. Raghavan and H. Schütze (2008), "Introduction to Information Retrieval", section
    16.3, purity.
    """
    return value_of(_top_label_share, A, rule_probs)
