"""The registered measures of many activation matrices at once, for permuted labels and the jackknife.

One call per matrix would take most of the time of a measurement, for calls and checks rather than arithmetic.
Measures that a user registers are called for one matrix at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from modtf.metrics.adaptation import rule_distributions
from modtf.metrics.alignment import match_rules
from modtf.metrics.distributions import Array
from modtf.metrics.expert_overlap import UNUSED
from modtf.metrics.measure import Measure
from modtf.metrics.registry import activation_measures

BLOCK = 16  # matrices at a time, if each is multiplied with 100 draws: they fit into the processor's cache


def entropy(p: Array) -> Array:
    """Return the entropy in nats of distributions `[..., K]`. A logarithm without a mask is far faster."""
    return np.asarray(-(p * np.log(p + (p == 0))).sum(axis=-1))


@dataclass(frozen=True)
class Stack:
    """Activation matrices `[N, R, M]` of the same labels, p(label) `[R]`, and quantities measures share."""

    A: Array
    probs: Array

    @cached_property
    def profiles(self) -> Array:
        """p(label, module) `[N, R, M]`."""
        return self.probs[:, np.newaxis] * self.A

    @cached_property
    def use(self) -> Array:
        """p(module) `[N, M]`."""
        return self.profiles.sum(axis=1)

    @cached_property
    def row_entropy(self) -> Array:
        """H(module | label) `[N]`, in nats."""
        return entropy(self.A) @ self.probs


def measure_stack(A: Array, probs: Array, groups: Iterable[str]) -> dict[str, Array]:
    """Return every registered measure `[N]` of activation matrices `[N, R, M]` with p(label) `[R]`.

    Each formula is that of the function of the same name in `modtf.metrics`, for many matrices at once.
    """
    stack = Stack(A, probs)
    few = min(A.shape[1:]) < 2
    return {
        measure.name: np.full(len(A), np.nan) if few else _function(measure)(stack)
        for measure in activation_measures(groups)
    }


def _function(measure: Measure) -> Callable[[Stack], Array]:
    if measure.name in STACKED:
        return STACKED[measure.name]

    def each(stack: Stack) -> Array:
        assert measure.function is not None
        probs = {"rule_probs": stack.probs} if measure.accepts("rule_probs") else {}
        return np.array([float(measure.function(A, **probs)) for A in stack.A])

    return each


def _collapse_avg(stack: Stack) -> Array:
    number = stack.A.shape[2]
    shortfall = np.maximum(0.0, 1.0 / number - stack.use).sum(axis=1)
    return np.clip(shortfall * number / (number - 1), 0.0, 1.0)


def _collapse_worst(stack: Stack) -> Array:
    return np.clip(1.0 - stack.A.shape[2] * stack.use.min(axis=1), 0.0, 1.0)


def _alignment(stack: Stack) -> Array:
    rows = np.arange(len(stack.probs))
    matched = np.array([A[rows, match_rules(A, stack.probs)] for A in stack.A])
    return np.clip((1.0 - matched) @ stack.probs, 0.0, 1.0)


def _inverse_mutual_information(stack: Stack) -> Array:
    most = min(float(entropy(stack.probs)), np.log(stack.A.shape[2]))
    if most == 0.0:
        return np.full(len(stack.A), np.nan)
    return np.clip(1.0 - (entropy(stack.use) - stack.row_entropy) / most, 0.0, 1.0)


def _adaptation(stack: Stack) -> Array:
    number, num_modules = stack.A.shape[1:]
    draws = rule_distributions(number)
    ranked = np.sort(draws, axis=1)
    values = []
    for start in range(0, len(stack.A), BLOCK):
        use = np.sort(draws @ stack.A[start : start + BLOCK], axis=2)  # ascending, like `ranked`
        both = min(number, num_modules)
        apart = np.abs(use[..., -both:] - ranked[:, -both:]).sum(axis=2)
        rest = use[..., :-both].sum(axis=2) + ranked[:, :-both].sum(axis=1)
        values.append((apart + rest).mean(axis=1))
    return np.clip(np.concatenate(values), 0.0, 2.0)


def _load_variation(stack: Stack) -> Array:
    return np.asarray(stack.use.std(axis=1) / stack.use.mean(axis=1))


def _routing_entropy(stack: Stack) -> Array:
    return np.clip(stack.row_entropy / np.log(stack.A.shape[2]), 0.0, 1.0)


def _effective_experts(stack: Stack) -> Array:
    return np.clip(np.exp(entropy(stack.use)), 1.0, stack.A.shape[2])


def _effective_rank(stack: Stack) -> Array:
    tall = stack.A if stack.A.shape[1] > stack.A.shape[2] else stack.A.transpose(0, 2, 1)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(tall.transpose(0, 2, 1) @ tall), 0.0))
    shares = values / values.sum(axis=1, keepdims=True)
    return np.clip(np.exp(entropy(shares)), 1.0, min(stack.A.shape[1:]))


def _expert_overlap(stack: Stack) -> Array:
    used = stack.use * stack.use.shape[1] > UNUSED
    use = np.where(used, stack.use, 0.0)
    norm = np.sqrt(np.einsum("nrm,nrm->nm", stack.profiles, stack.profiles))
    weights = np.divide(use, norm, out=np.zeros_like(use), where=used)
    themselves = (use**2).sum(axis=1)
    together = (np.einsum("nrm,nm->nr", stack.profiles, weights) ** 2).sum(axis=1)
    pairs = use.sum(axis=1) ** 2 - themselves
    enough = used.sum(axis=1) > 1
    cosine = np.divide(together - themselves, pairs, out=np.full(len(use), np.nan), where=enough)
    return np.clip(cosine, 0.0, 1.0)


def _top_label_share(stack: Stack) -> Array:
    return np.clip(stack.profiles.max(axis=1).sum(axis=1), 0.0, 1.0)


STACKED: dict[str, Callable[[Stack], Array]] = {
    "collapse_avg": _collapse_avg,
    "collapse_worst": _collapse_worst,
    "alignment": _alignment,
    "inverse_mutual_information": _inverse_mutual_information,
    "adaptation": _adaptation,
    "load_variation": _load_variation,
    "routing_entropy": _routing_entropy,
    "effective_experts": _effective_experts,
    "effective_rank": _effective_rank,
    "expert_overlap": _expert_overlap,
    "top_label_share": _top_label_share,
}
