"""How alike and how exclusive modules are: effective rank, expert overlap, top-label share."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array, entropy
from modtf.metrics.registry import register_measure


def _effective_rank(A: Array, probs: Array) -> Array:
    tall = A if A.shape[-2] > A.shape[-1] else np.swapaxes(A, -1, -2)
    if A.ndim > 2:
        squares = np.swapaxes(tall, -1, -2) @ tall
    elif len(tall) > 4 * tall.shape[1]:
        # The parts are so small that BLAS starts no threads, which would cost more.
        parts = np.array_split(tall, len(tall) // 64 + 1)
        squares = np.sum([part.T @ part for part in parts], axis=0)
    else:
        values = np.linalg.svd(A, compute_uv=False)
        return np.clip(np.exp(entropy(values / values.sum())), 1.0, min(A.shape))
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(squares), 0.0))  # to 1e-8, in a tenth of the time
    shares = values / values.sum(axis=-1, keepdims=True)
    return np.clip(np.exp(entropy(shares)), 1.0, min(A.shape[-2:]))


@register_measure(
    "effective_rank",
    group="diagnostic",
    range=(1.0, np.inf),
    perfect=None,  # min(R, M)
    smaller_is_better=False,
    description="Effective number of different rows of the activation matrix: 1 all rules served alike.",
    formula=_effective_rank,
    axis_label="Effective rank",
)
def effective_rank(A: ArrayLike) -> float:
    """Return exp of the entropy of the singular values of A, divided by their sum.

    Random routing and one module that does everything both have equal rows and score 1. The measure sees both
    ways to fail.

    What fools it: it ignores scale. Rows with small differences, each in its own way, add a little each. With
    many rules a nearly random router can score well above 1, and so can the noise of a matrix from few
    tokens. Every rule counts once, however rare.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).

    Returns:
        1..min(R, M), the latter if rules are shared out one module each (with M < R: evenly); NaN for one
        module or one rule.

    Raises:
        ValueError: if A is not an activation matrix.

    Example:
        >>> round(effective_rank([[0, 1], [1, 0]]), 6), round(effective_rank([[1, 0], [1, 0]]), 6)
        (2.0, 1.0)

    Source: O. Roy and M. Vetterli (2007), "The Effective Rank: A Measure of Effective Dimensionality".
    """
    return value_of(_effective_rank, A, None)


# Below this share of an equal load a module counts as unused: its profile would consist of rounding errors.
UNUSED = 1e-6


def _expert_overlap(A: Array, probs: Array) -> Array:
    profiles = probs[:, np.newaxis] * A
    use = profiles.sum(axis=-2)
    used = use * A.shape[-1] > UNUSED
    use = np.where(used, use, 0.0)
    norm = np.sqrt(np.einsum("...rm,...rm->...m", profiles, profiles))
    weights = np.divide(use, norm, out=np.zeros_like(use), where=used)
    themselves = (use**2).sum(axis=-1)  # each module with itself, which does not count
    together = (np.einsum("...rm,...m->...r", profiles, weights) ** 2).sum(axis=-1)
    pairs = use.sum(axis=-1) ** 2 - themselves
    enough = used.sum(axis=-1) > 1
    unknown = np.full(np.shape(pairs), np.nan)
    return np.clip(np.divide(together - themselves, pairs, out=unknown, where=enough), 0.0, 1.0)


@register_measure(
    "expert_overlap",
    group="diagnostic",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Cosine similarity of the rules that two modules serve: 0 none in common, 1 the same.",
    formula=_expert_overlap,
    axis_label="Expert overlap",
)
def expert_overlap(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return the mean over pairs of modules of the cosine of their profiles p(r) A_rm.

    Pairs are weighted by p(m) p(m'), because a profile from few tokens is noise. A rarely used module hardly
    counts; an unused one (less than a millionth of an equal share) does not count at all.

    What fools it: unused modules do not overlap. Two modules that serve half of the rules each score 0
    however many others are dead. One module with several rules of its own scores 0, too.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is disjoint; NaN if fewer than two modules are used, and for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> round(expert_overlap([[0.75, 0.25], [0.25, 0.75]]), 6)
        0.6

    Source: E. R. Pianka (1973), "The Structure of Lizard Communities" (niche overlap: species for modules,
    resources for rules).
    """
    return value_of(_expert_overlap, A, rule_probs)


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
