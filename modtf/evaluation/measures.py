"""The measures of `modtf.metrics` for members of which some may have diverged."""

from collections.abc import Iterable

import numpy as np

from modtf import metrics


def rates(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """`metrics.from_counts`, NaN for the members whose sums are not finite: they have diverged."""
    finite = np.isfinite(sums).all(axis=(1, 2))[:, None, None]
    even = counts[..., None] / sums.shape[-1]
    return np.where(finite, metrics.from_counts(np.where(finite, sums, even), counts), np.nan)


def measure_members(
    activation: np.ndarray, *, groups: Iterable[str] = metrics.MAIN_GROUPS, **sampled: np.ndarray
) -> dict[str, np.ndarray]:
    """`metrics.measure_population`, NaN for members that have diverged."""
    matrices = {"A": activation, **sampled}
    finite = np.all([np.isfinite(matrix).all(axis=(1, 2)) for matrix in matrices.values()], axis=0)
    even = {
        name: np.where(finite[:, None, None], matrix, 1 / matrix.shape[-1])
        for name, matrix in matrices.items()
    }
    found = metrics.measure_population(**even, groups=groups)
    return {name: np.where(finite, values, np.nan) for name, values in found.items()}
