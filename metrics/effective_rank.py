"""Effective rank: the number of different rows of the activation matrix."""

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
