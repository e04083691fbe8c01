import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modtf.analysis import holm


def test_holm_is_that_of_statistics():
    p = [0.01, 0.04, np.nan, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, np.nan, 0.06, 0.02], nan_ok=True)  # by hand
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_it_keeps_the_order_and_lies_between_the_p_value_and_that_times_their_number(p):
    corrected = holm(p)
    assert all(a <= b <= min(1.0, len(p) * a) for a, b in zip(p, corrected, strict=True))
    order = np.argsort(p, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()
