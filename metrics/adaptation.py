"""Adaptation: how well the load of the modules follows when the rules have other probabilities."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from modtf.base.checks import check_integer
from modtf.base.memory import check_fits
from modtf.metrics.activation_matrix import can_specialise, check_activation_matrix
from modtf.metrics.distributions import Array, check_distributions
from modtf.metrics.registry import register_measure

NUM_DRAWS = 100
BLOCK = 16  # matrices at a time, if each is multiplied with 100 draws: they fit into the processor's cache
OBJECT = 200  # bytes of the Python objects of a draw


def rule_distributions(num_rules: int, num_draws: int = NUM_DRAWS) -> Array:
    """Return the published rule distributions: draw i is Dirichlet(1) from RandomState(i).

    Returns:
        float64 `[num_draws, num_rules]`, read-only.

    Raises:
        ValueError: if there is not at least one rule and one draw, or if the result does not fit into memory.
    """
    num_rules, num_draws = check_integer("num_rules", num_rules, 1), check_integer("num_draws", num_draws, 1)
    needed = num_draws * (np.dtype(np.float64).itemsize * num_rules + OBJECT)
    check_fits(f"num_rules={num_rules}, num_draws={num_draws}", {"draws": needed}, "Take fewer of both.")
    return _drawn(num_rules, num_draws)


@lru_cache(maxsize=32)  # a RandomState costs 0.1 ms, and a population asks for the same draws P times
def _drawn(num_rules: int, num_draws: int) -> Array:
    draws = np.stack([np.random.RandomState(i).dirichlet(np.ones(num_rules)) for i in range(num_draws)])
    draws.setflags(write=False)
    return draws


def adaptation_from_usage(rule_distributions: ArrayLike, usage: ArrayLike) -> float:
    """Return the mean over k of sum_i |p_k(i) - q_k(i)|, with both sorted in descending order.

    Sorting makes the measure independent of which module serves which rule. The shorter of p_k and q_k is
    padded with zeros, so unused modules change nothing. With fewer modules than rules 0 cannot be reached:
    only the M most likely rules have a counterpart in q_k, and the modules also serve the others. No router
    gets below the mean over k of 2 sum_{i>M} p_k(i). Compare such models with each other or
    with random routing, not with 0. The published code halves the sum; this function does not.

    Args:
        rule_distributions: p_k `[K, R]`.
        usage: q_k `[K, M]`, the measured mean activation of each module while rules followed p_k.

    Returns:
        0..2, 0 is perfect; NaN for one module or one rule.

    Raises:
        ValueError: if one of them is not K distributions.

    Example:
        >>> adaptation_from_usage([[0.75, 0.25]], [[0.5, 0.5]])
        0.5

    Source: Mittal et al. (2022), Adaptation.
    """
    p = check_distributions(rule_distributions, "rule_distributions [draws, rules]", ndim=2)
    q = check_distributions(usage, "usage [draws, modules]", ndim=2)
    if len(p) != len(q):
        raise ValueError(f"usage has {len(q)} rows; expected one for each of {len(p)} rule distributions.")
    if min(p.shape[1], q.shape[1]) < 2:
        return float("nan")
    length = p.shape[1]
    least = np.partition(q, max(0, q.shape[1] - length), axis=1)  # without partner; cheap
    rest, q = np.split(least, [max(0, q.shape[1] - length)], axis=1)
    difference = np.abs(_descending(p, length) - _descending(q, length)).sum(axis=1) + rest.sum(axis=1)
    return float(np.clip(difference.mean(), 0.0, 2.0))


def _adaptation(A: Array, probs: Array) -> Array:
    number, num_modules = A.shape[-2:]
    draws = rule_distributions(number)
    ranked, both = np.sort(draws, axis=1), min(number, num_modules)
    values = []
    for start in range(0, len(A), BLOCK):
        use = np.sort(draws @ A[start : start + BLOCK], axis=2)  # ascending, like `ranked`
        apart = np.abs(use[..., -both:] - ranked[:, -both:]).sum(axis=2)
        rest = use[..., :-both].sum(axis=2) + ranked[:, :-both].sum(axis=1)
        values.append((apart + rest).mean(axis=1))
    return np.clip(np.concatenate(values), 0.0, 2.0)


@register_measure(
    "adaptation",
    group="specialisation",
    range=(0.0, 2.0),
    perfect=0.0,
    description="Mean distance of sorted load from sorted rule probabilities, over many rule distributions.",
    formula=_adaptation,
    axis_label="Adaptation",
)
def adaptation(
    A: ArrayLike,
    usage: ArrayLike | None = None,
    num_draws: int = NUM_DRAWS,
    rule_frequencies: ArrayLike | None = None,
) -> float:
    """Return `adaptation_from_usage` over `rule_distributions(R, num_draws)`.

    Without `usage` the load under p is p @ A. This is exact if the activation of a token depends on its own
    rule and inputs alone (mlp; the variants modular_op and gt_modular).

    Measured usage comes from a sample of tokens, whose rules do not follow p exactly. Compared with p itself,
    even a perfect router has the error of the sample. Compared with the `rule_frequencies` of that sample, it
    scores exactly 0.

    A few distributions have another mean than many: over the first 5, 10 and 100, random routing of two rules
    has 0.48, 0.60 and 0.51. With usage under fewer than `num_draws` distributions, the result is the value of
    p @ A over all `num_draws`, plus the difference that measured use makes on the few.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        usage: measured module use `[K, M]`: mean activations over K samples of tokens, with rules drawn from
            the first K rule distributions.
        num_draws: number of rule distributions that the result describes; unused if `usage` has more, or if
            `rule_frequencies` are given without `usage`.
        rule_frequencies: `[K, R]`, the frequency of each rule among the tokens of `usage`; used in place of
            the rule distributions.

    Returns:
        0..2, 0 is perfect; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, if usage or rule_frequencies are not as many
            distributions over its modules or rules as needed, or if num_draws < 1.

    Example:
        >>> adaptation([[0, 1], [1, 0]])
        0.0
        >>> adaptation([[0, 1], [1, 0]], usage=[[0.4, 0.6]], rule_frequencies=[[0.6, 0.4]])
        0.0

    Source: Mittal et al. (2022), Adaptation.
    """
    A = check_activation_matrix(A)
    num_rules, num_modules = A.shape
    num_draws = check_integer("num_draws", num_draws, 1)
    if usage is not None:
        usage = check_distributions(usage, "usage [draws, modules]", ndim=2)
        if usage.shape[1] != num_modules:
            raise ValueError(
                f"usage has {usage.shape[1]} modules, but the activation matrix has {num_modules}. Give "
                "both for the same model."
            )
    if rule_frequencies is not None:
        rule_frequencies = check_distributions(rule_frequencies, "rule_frequencies [draws, rules]", ndim=2)
        if rule_frequencies.shape[1] != num_rules:
            raise ValueError(
                f"rule_frequencies has {rule_frequencies.shape[1]} rules, but the activation matrix has "
                f"{num_rules}. Give both for the same task."
            )
    if not can_specialise(A):
        return float("nan")
    if rule_frequencies is None:
        rule_frequencies = rule_distributions(num_rules, num_draws if usage is None else len(usage))
    measured = adaptation_from_usage(rule_frequencies, rule_frequencies @ A if usage is None else usage)
    if usage is None or len(usage) >= num_draws:
        return measured
    every = rule_distributions(num_rules, num_draws)
    exact, of_all = (adaptation_from_usage(p, p @ A) for p in (rule_frequencies, every))
    return float(np.clip(measured - exact + of_all, 0.0, 2.0))  # a control variate


def _descending(rows: Array, length: int) -> Array:
    padded = np.zeros([len(rows), length])
    padded[:, : rows.shape[1]] = np.sort(rows, axis=1)[:, ::-1]
    return padded
