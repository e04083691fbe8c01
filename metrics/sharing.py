"""Diagnostics of which modules serve which rules: shared, spread, alike or exclusive."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import can_specialise, check_activation_matrix, checked
from modtf.metrics.distributions import entropy
from modtf.metrics.registry import register_measure

# Below this share of an equal use a module counts as unused: its profile would be that of rounding errors.
UNUSED = 1e-6


@register_measure(
    "routing_entropy",
    group="diagnostic",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Entropy of the modules that serve a rule: 0 every rule has one module, 1 all alike.",
    axis_label="Routing entropy",
)
def routing_entropy(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """sum_r p(r) H(m | r) / log M: the mean entropy of a rule's row, as a share of the largest possible.

    What fools it: one module that does everything scores 0, as a perfect router does. It needs
    `effective_experts` beside it; the difference of the two entropies is the mutual information. With fewer
    rules than modules, a rule that is spread over modules of its own is not 0 though nothing is shared. It is
    not the entropy of single tokens: a router that is decisive for every token, but by something else than
    the rule, scores high.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is decisive; NaN for one module or one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> routing_entropy([[0.5, 0.5], [1, 0]])
        0.5

    Source: B. Mustafa et al. (2022), "Multimodal Contrastive Learning with LIMoE: the Language-Image Mixture
    of Experts" (entropy of the mean routing of a modality, here of a rule).
    """
    A, probs = checked(A, rule_probs)
    if not can_specialise(A):
        return float("nan")
    return float(np.clip(probs @ entropy(A) / np.log(A.shape[1]), 0.0, 1.0))


@register_measure(
    "effective_rank",
    group="diagnostic",
    range=(1.0, np.inf),
    perfect=None,  # min(R, M)
    smaller_is_better=False,
    description="Effective number of different rows of the activation matrix: 1 all rules served alike.",
    axis_label="Effective rank",
)
def effective_rank(A: ArrayLike) -> float:
    """exp of the entropy of the singular values of A, divided by their sum.

    Both random activation and one module that does everything have equal rows and score 1: this measure sees
    both ways to fail.

    What fools it: it knows no scale. Rows that differ a little, all in their own way, add a little each, and
    with many rules a nearly random router can score well above 1; so does the noise of a matrix from few
    tokens. Every rule counts once, however rare.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).

    Returns:
        1..min(R, M), the latter if rules are shared out one module each (with M < R: evenly); NaN for one
        module or one rule.

    Raises:
        ValueError: if A is no activation matrix.

    Example:
        >>> round(effective_rank([[0, 1], [1, 0]]), 6), round(effective_rank([[1, 0], [1, 0]]), 6)
        (2.0, 1.0)

    Source: O. Roy and M. Vetterli (2007), "The Effective Rank: A Measure of Effective Dimensionality".
    """
    A = check_activation_matrix(A)
    if not can_specialise(A):
        return float("nan")
    if len(A) > 4 * A.shape[1]:  # tall: singular values to 1e-8, in a tenth of the time
        parts = np.array_split(A, len(A) // 64 + 1)  # so small that BLAS starts no threads, which cost more
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(sum(part.T @ part for part in parts)), 0.0))
    else:
        values = np.linalg.svd(A, compute_uv=False)
    return float(np.clip(np.exp(entropy(values / values.sum())), 1.0, min(A.shape)))


@register_measure(
    "expert_overlap",
    group="diagnostic",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Cosine of what two modules serve: 0 no rule in common, 1 the same rules.",
    axis_label="Expert overlap",
)
def expert_overlap(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Mean over pairs of modules of the cosine of their profiles p(r) A_rm, pairs weighted by p(m) p(m').

    Weighted, because a profile that stems from few tokens is noise: a module that is hardly used counts
    hardly, an unused one (less than a millionth of an equal share) not at all.

    What fools it: what is not used does not overlap. Two modules that serve half of the rules each score 0
    however many others are dead, and so does one module with several rules of its own.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is disjoint; NaN if fewer than two modules are used, and for one module or one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> round(expert_overlap([[0.75, 0.25], [0.25, 0.75]]), 6)
        0.6

    Source: E. R. Pianka (1973), "The Structure of Lizard Communities" (niche overlap: species for modules,
    resources for rules).
    """
    A, probs = checked(A, rule_probs)
    profiles = probs[:, np.newaxis] * A
    use = profiles.sum(axis=0)
    used = use * use.size > UNUSED
    if not can_specialise(A) or used.sum() < 2:
        return float("nan")
    use, profiles = use[used], profiles[:, used]
    unit = profiles / np.linalg.norm(profiles, axis=0)
    themselves = use @ use  # each with itself, which does not count
    return float(np.clip((np.sum((unit @ use) ** 2) - themselves) / (use.sum() ** 2 - themselves), 0.0, 1.0))


@register_measure(
    "top_label_share",
    group="diagnostic",
    range=(0.0, 1.0),
    perfect=1.0,
    smaller_is_better=False,
    description="Share of each module's most frequent rule in its use: 1 every module serves one rule.",
    axis_label="Top-label share",
)
def top_label_share(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """sum_m max_r p(r) A_rm: the mean over modules, weighted by their use p(m), of max_r p(r | m).

    That is how often one is right who guesses the rule from the module; of clusters it is called purity.
    Weighted by use, because the modules that look most exclusive are those with the fewest tokens:
    unweighted, a module that was used once scores 1.

    What fools it: unequal rules. Whatever the router does, the share is at least that of the most frequent
    rule, max_r p(r). It does not see whether a rule is spread over many modules: with one module per token it
    is 1. With M < R equally frequent rules it is at most M/R.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        max p(r)..1, 1 is pure; NaN for one module or one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> top_label_share([[0.75, 0.25], [0.25, 0.75]])
        0.75

    Source: C. D. Manning, P. Raghavan and H. Schütze (2008), "Introduction to Information Retrieval", section
    16.3, purity.
    """
    A, probs = checked(A, rule_probs)
    if not can_specialise(A):
        return float("nan")
    return float(np.clip((probs[:, np.newaxis] * A).max(axis=0).sum(), 0.0, 1.0))
