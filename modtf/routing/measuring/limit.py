"""Sums under permuted labels, drawn from their limit; see `modtf.routing.measuring.documents`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.measuring.checks import Ints


def draw_from_limit(
    mean: Array, variance: Array, covariance: Array, weights: Array | Ints, permutations: int,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """Draw `[permutations, R, M]` sums of the activations of R labels.

    Sums of independent normal Z_r have too much freedom: they must add up to that of all tokens, so each
    label gives back its share of what they exceed it by. A cell whose mean is less than four standard
    deviations is not normal: few tokens make it up. There it is a Poisson number of steps, as large as gives
    it its variance, and rows and columns are scaled to their sums again. With two tokens a cell the mutual
    information by chance is right to a few percent for hard assignment, and to a seventh for very unequal
    gate mass.

    Args:
        mean, variance: `[R, M]`, of every sum.
        covariance: `[M, M]`, says how modules go together, in proportion to the labels' `weights`; where it
            gives another variance, cells are scaled. If all units have the same number of tokens, a row
            always has the sum of its mean.
        weights: `[R]`.
    """
    same_length = covariance.sum() <= 1e-6 * np.trace(covariance)
    values, vectors = np.linalg.eigh(covariance)
    root: NDArray[Any] = (vectors * np.sqrt(np.maximum(values, 0.0))).astype(np.float32)
    share = weights / weights.sum()
    singles: list[NDArray[Any]] = [a.astype(np.float32) for a in (mean, variance, share, weights)]
    mean, variance, share, weights = singles
    noise = generator.standard_normal((permutations, *mean.shape), np.float32) @ root.T
    noise *= np.sqrt(weights)[:, np.newaxis]
    noise -= share[:, np.newaxis] * noise.sum(axis=1, keepdims=True)
    had = np.outer(weights * (1.0 - share), np.maximum(np.diag(covariance), 0.0)).astype(np.float32)
    noise *= np.sqrt(np.divide(variance, had, out=np.zeros_like(had), where=had > 0))
    rows = mean.sum(axis=1, keepdims=True)
    rows = np.maximum(rows + (0.0 if same_length else noise.sum(axis=2, keepdims=True)), 0.0)
    noise += mean
    few = (mean**2 < 16.0 * variance) & (mean > 0)
    free = variance / np.maximum(1.0 - share, 1e-9)[:, np.newaxis]  # what scaling columns takes away again
    step = free[few] / mean[few]
    for one in noise:  # all at once would be slow for the memory they take
        one[few] = step * generator.poisson(mean[few] / step)
    drawn = np.maximum(noise, 0.0, out=noise)
    columns = mean.sum(axis=0, keepdims=True)
    for _ in range(4):
        for axis, wanted in ((1, columns), (2, rows)):
            sums = drawn.sum(axis=axis, keepdims=True)
            if not (sums > 0).all():  # a row or column without any event: as expected
                drawn = np.where(sums > 0, drawn, mean)
                sums = drawn.sum(axis=axis, keepdims=True)
            drawn *= np.divide(wanted, sums, out=np.ones_like(sums), where=sums > 0)
    return drawn
