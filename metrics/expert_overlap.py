"""Expert overlap: how much modules serve the same rules."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import value_of
from modtf.metrics.distributions import Array
from modtf.metrics.registry import register_measure

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
