"""Rounding that keeps the sum of a row, of any row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from modtf.results.compact import PARTS, apportion, compact

ROWS = arrays(
    np.float32, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.floats(0, 1, width=32)
)


@given(ROWS)
def test_rows_keep_their_sum_and_shares_their_place(raw):
    shares = (raw + 1e-3) / (raw + 1e-3).sum(axis=-1, keepdims=True)
    rounded = apportion(shares)
    np.testing.assert_array_equal(rounded.sum(axis=-1), 1)
    assert (np.abs(rounded - shares) < 1.01 / PARTS).all()  # float32 shares sum to 1 but for rounding
    assert (rounded >= 0).all()
    np.testing.assert_array_equal(apportion(rounded), rounded)
    np.testing.assert_array_equal(rounded.astype(np.float16), rounded)


def test_what_is_certain_stays_and_so_does_what_diverged():
    np.testing.assert_array_equal(apportion(np.eye(3)), np.eye(3))
    assert np.isnan(apportion([[np.nan, np.nan]])).all()


def test_the_same_arrays_are_the_same_bytes():
    last, steps = np.full((2, 3), 1 / 3, np.float32), np.arange(5)
    assert compact({"last": last, "steps": steps}) == compact({"last": last, "steps": steps})
