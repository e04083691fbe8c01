"""Values of one layer with their intervals and chance levels."""

from collections.abc import Callable, Mapping

import numpy as np

from modtf.metrics.atlas.inputs import Ints
from modtf.metrics.atlas.jackknife import NAN, jackknife
from modtf.metrics.atlas.layer import Estimate
from modtf.metrics.distributions import Array
from modtf.metrics.registry import MEASURES

INVERSE, ADJUSTED = "inverse_mutual_information", "adjusted_mutual_information"


def estimates(
    measure: Callable[[Array], Mapping[str, float]],
    sums: Array,
    counts: Ints,
    by_chance: Array,
    confidence: float,
) -> dict[str, Estimate]:
    """Every value that `measure` gives, and the mutual information corrected for chance.

    Noise looks like information: measured from few tokens, the mutual information of what is independent is
    above 0. The corrected one is (I - E) / (most - E), with E the mean of I under permuted labels and `most`
    the largest that I can be: 0 on average for modules that know nothing of labels, 1 where they tell all
    that they can tell. It may be negative.

    Args:
        measure: from an activation matrix `[R, M]` to values by name.
        sums, counts: per group of tokens, `[groups, R, M]` and `[groups, R]`.
        by_chance: activation matrices under permuted labels, `[permutations, R, M]`.
        confidence: of the intervals.

    Source of the correction: N. X. Vinh, J. Epps and J. Bailey (2010), "Information Theoretic Measures for
    Clusterings Comparison: Variants, Properties, Normalization and Correction for Chance".
    """
    values = measure(sums.sum(axis=0) / counts.sum(axis=0)[:, np.newaxis])
    intervals = jackknife(sums, counts, measure, confidence)
    chances = [measure(matrix) for matrix in by_chance]
    found = {}
    for name, value in values.items():
        chance = np.array([values[name] for values in chances])
        centre, half = intervals[name]
        low, high = MEASURES[name].range
        # The centre is the value less its bias. Where the bias is large the interval is widened to the value.
        found[name] = Estimate(
            value,
            float(np.clip(min(centre - half, value), low, high)),
            float(np.clip(max(centre + half, value), low, high)),
            *_summary(chance),
        )
        if name == INVERSE:
            found[ADJUSTED] = _adjusted(value, half, chance)
    return found


def bare_estimates(values: Mapping[str, float]) -> dict[str, Estimate]:
    """Values of which neither interval nor chance is known."""
    return {name: Estimate(value, NAN, NAN, NAN, NAN, NAN) for name, value in values.items()}


def _adjusted(value: float, half: float, chance: Array) -> Estimate:
    told, told_by_chance = 1.0 - value, 1.0 - chance
    expected = float(told_by_chance.mean()) if chance.size else NAN
    if not expected < 1.0:  # NaN, or chance tells all there is: one token a label
        return Estimate(NAN, NAN, NAN, NAN, NAN, NAN)
    scale = 1.0 - expected
    centre, half = (told - expected) / scale, half / scale
    # The bias is gone already: the interval is around the value.
    return Estimate(
        centre, centre - half, min(centre + half, 1.0), *_summary((told_by_chance - expected) / scale)
    )


def _summary(chance: Array) -> tuple[float, float, float]:
    """Mean, and the range of the middle 95%."""
    if not chance.size or np.isnan(chance).any():
        return NAN, NAN, NAN
    low, high = np.quantile(chance, [0.025, 0.975])
    return float(chance.mean()), float(low), float(high)
