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

    Independent normal Z_r have too much freedom: their sum over labels must equal the sum over all tokens. So
    each label gives back its share of the excess. A cell whose mean is below four standard deviations is not
    normal, because few tokens contribute to it. It is drawn as a Poisson number of steps; the size of a step
    is set to match the variance. Rows and columns are then scaled to their sums again. With two tokens per
    cell, the mutual information by chance has an error of a few percent for hard assignment, and of 1/7 for
    very unequal gate mass.

    Args:
        mean, variance: `[R, M]`, the mean and variance of every sum.
        covariance: `[M, M]`, how modules vary together, scaled by the labels' `weights`. If its diagonal
            differs from `variance`, cells are scaled. If all units have the same number of tokens, each row
            keeps the sum of its mean.
        weights: `[R]`, the factors of `covariance` for each label.
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
    free = variance / np.maximum(1.0 - share, 1e-9)[:, np.newaxis]  # scaling columns reduces it again
    step = free[few] / mean[few]
    for one in noise:  # one by one: all at once is slow, because it needs more memory
        one[few] = step * generator.poisson(mean[few] / step)
    drawn = np.maximum(noise, 0.0, out=noise)
    columns = mean.sum(axis=0, keepdims=True)
    for _ in range(4):
        for axis, wanted in ((1, columns), (2, rows)):
            sums = drawn.sum(axis=axis, keepdims=True)
            if not (sums > 0).all():  # a row or column without any event gets its mean
                drawn = np.where(sums > 0, drawn, mean)
                sums = drawn.sum(axis=axis, keepdims=True)
            drawn *= np.divide(wanted, sums, out=np.ones_like(sums), where=sums > 0)
    return drawn
