"""Activation matrices for property-based tests."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

FAST = settings(max_examples=25, deadline=None, derandomize=True)
# Zeros, powers of ten down to the smallest float, and all values between.
WEIGHTS = st.one_of(st.just(0.0), st.floats(0, 1), st.sampled_from([1e-320, 1e-12, 1.0]))


@st.composite
def distributions(draw, shape):
    weights = draw(arrays(np.float64, shape, elements=WEIGHTS))
    weights[weights.sum(axis=-1) == 0] = 1.0
    weights /= weights.max(axis=-1, keepdims=True)  # sums of denormal numbers are too coarse to divide by
    return weights / weights.sum(axis=-1, keepdims=True)


@st.composite
def matrices(draw, max_size=5, square=False):
    num_rules = draw(st.integers(2, max_size))
    num_modules = num_rules if square else draw(st.integers(2, max_size))
    return draw(distributions((num_rules, num_modules)))


def adaptation_by_hand(A):
    """Compute adaptation by its definition, draw by draw; the shorter side is padded with zeros."""
    (R, M), total = np.shape(A), 0.0
    for seed in range(100):
        p = np.random.RandomState(seed).dirichlet(np.ones(R)).tolist()
        q = [sum(p[r] * A[r][m] for r in range(R)) for m in range(M)]
        padded = sorted(p + [0.0] * (M - R)), sorted(q + [0.0] * (R - M))
        total += sum(abs(a - b) for a, b in zip(*padded, strict=True))
    return total / 100
