"""Activation matrices for property-based tests."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

FAST = settings(max_examples=60, deadline=None, derandomize=True)
# Zeros, powers of ten down to the smallest numbers there are, and everything between.
WEIGHTS = st.one_of(st.just(0.0), st.floats(0, 1), st.sampled_from([1e-320, 1e-12, 1.0]))


@st.composite
def distributions(draw, shape):
    weights = draw(arrays(np.float64, shape, elements=WEIGHTS))
    weights[weights.sum(axis=-1) == 0] = 1.0
    weights /= weights.max(axis=-1, keepdims=True)  # a sum of the smallest numbers is too coarse to divide by
    return weights / weights.sum(axis=-1, keepdims=True)


@st.composite
def matrices(draw, max_size=5, square=False):
    num_rules = draw(st.integers(2, max_size))
    num_modules = num_rules if square else draw(st.integers(2, max_size))
    return draw(distributions((num_rules, num_modules)))
