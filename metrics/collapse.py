"""How evenly modules are used, whatever the rules: the two measures of collapse, and two diagnostics."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import can_specialise, checked
from modtf.metrics.distributions import entropy
from modtf.metrics.registry import register_measure


@register_measure(
    "collapse_avg",
    group="collapse",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Shortfall of the under-used modules: 0 all used equally, 1 one module does everything.",
    axis_label="Collapse (average)",
)
def collapse_avg(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """M/(M-1) * sum_m max(0, 1/M - p(m)), with p(m) the use of module m.

    The published formula has R for M, which is the same number there. An equal share is 1/M whatever the
    number of rules. The sum is largest when one module does everything: M - 1 modules are short of 1/M each,
    so M/(M-1) keeps the range 0..1. With more modules than rules, one module per rule leaves modules unused,
    and this counts as collapse: the value is (M - R) / (M - 1) then, and only rules that are spread over
    several modules reach 0.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default. Under unequal probabilities even one module per rule is
            not equal use, and is not 0.

    Returns:
        0..1, 0 is perfect; NaN for one module or one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> collapse_avg([[1, 0], [1, 0]])
        1.0

    Source: Mittal et al. (2022), Collapse-Avg.
    """
    A, probs = checked(A, rule_probs)
    if not can_specialise(A):
        return float("nan")
    use = probs @ A
    num_modules = use.size
    shortfall = np.maximum(0.0, 1.0 / num_modules - use).sum() * num_modules / (num_modules - 1)
    return float(np.clip(shortfall, 0.0, 1.0))


@register_measure(
    "collapse_worst",
    group="collapse",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Shortfall of the least used module: 0 all used equally, 1 a module is never used.",
    axis_label="Collapse (worst)",
)
def collapse_worst(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """1 - M min_m p(m), with p(m) the use of module m.

    M stands where the published formula has R, as in `collapse_avg` and for the same reason: the least used
    of M modules has at most 1/M. With more modules than rules, one module per rule scores 1.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is perfect; NaN for one module or one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> collapse_worst([[1.0, 0.0], [0.5, 0.5]])
        0.5

    Source: Mittal et al. (2022), Collapse-Worst.
    """
    A, probs = checked(A, rule_probs)
    if not can_specialise(A):
        return float("nan")
    use = probs @ A
    return float(np.clip(1.0 - use.size * use.min(), 0.0, 1.0))


@register_measure(
    "load_variation",
    group="diagnostic",
    range=(0.0, np.inf),
    perfect=0.0,
    description="Coefficient of variation of module use: 0 all used equally.",
    axis_label="Load variation",
)
def load_variation(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Standard deviation of p(m) over modules, divided by its mean 1/M: sqrt(M sum_m p(m)^2 - 1).

    The load coefficient of variation, of which sparse mixtures of experts penalise the square. It sees what
    `collapse_avg` sees, but weighs over-used modules more.

    What fools it: it knows nothing of rules, so random activation scores 0, as a perfect router does. Under
    unequal rules a perfect router is not 0. The largest value, sqrt(M - 1), grows with M: compare it between
    models with equally many modules.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..sqrt(M - 1), 0 is balanced; NaN for one module or one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> load_variation([[1, 0], [1, 0]])
        1.0

    Source: N. Shazeer et al. (2017), "Outrageously Large Neural Networks: The Sparsely-Gated
    Mixture-of-Experts Layer", section 4.
    """
    A, probs = checked(A, rule_probs)
    if not can_specialise(A):
        return float("nan")
    use = probs @ A
    return float(use.std() / use.mean())


@register_measure(
    "effective_experts",
    group="diagnostic",
    range=(1.0, np.inf),
    perfect=None,  # M
    smaller_is_better=False,
    description="Number of equally used modules with the same entropy of use: 1 one does everything.",
    axis_label="Effective experts",
)
def effective_experts(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """exp H(m), with H(m) the entropy of the use p(m) of modules.

    What fools it: random activation scores M, as a perfect router does. Modules that are hardly used count
    hardly, so that a dead one among many is not noticed (`collapse_worst` does).

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        1..M, M if all modules are used equally; NaN for one module or one rule.

    Raises:
        ValueError: if A is no activation matrix or rule_probs no distribution over its rules.

    Example:
        >>> round(effective_experts([[1, 0, 0], [0, 1, 0]]), 6)
        2.0

    Source: M. O. Hill (1973), "Diversity and Evenness: A Unifying Notation and Its Consequences", the number
    of order 1.
    """
    A, probs = checked(A, rule_probs)
    if not can_specialise(A):
        return float("nan")
    use = probs @ A
    return float(np.clip(np.exp(entropy(use)), 1.0, use.size))
