"""Tables are read as they were written."""

import io

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from modtf.results.values import read_values


@given(arrays.arrays(np.float64, st.integers(1, 20), elements=st.floats(allow_nan=True, width=64)))
def test_numbers_are_the_same_to_the_last_bit(values):
    text = pd.DataFrame({"value": values}).to_csv(index=False)
    np.testing.assert_array_equal(read_values(io.StringIO(text))["value"].to_numpy(), values)


def test_an_empty_text_is_no_missing_value():
    text = pd.DataFrame({"model_options": ["", "nan"], "value": [np.nan, 1.5]}).to_csv(index=False)
    found = read_values(io.StringIO(text), {"model_options": "category", "value": "float64"})
    assert found["model_options"].tolist() == ["", "nan"]
    assert np.isnan(found["value"][0])
    assert found["value"][1] == 1.5
