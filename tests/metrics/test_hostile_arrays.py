"""Measures refuse what is no activation matrix, and no activations of tokens, in words of their own."""

import inspect

import numpy as np
import pytest
from hostile import anything, few, survives
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import modtf
from modtf import metrics

numbers = st.floats(width=32) | st.integers(-1, 3)
matrices = arrays.arrays(float, st.lists(st.integers(0, 4), max_size=4).map(tuple), elements=numbers)
GOOD = np.eye(3)[np.arange(12) % 3]
NAMES = [name for name in inspect.signature(modtf.measure_activations).parameters if name != "permutations"]


@few
@given(A=anything | matrices)
def test_measure_all(A):
    found = survives(lambda: metrics.measure_all(A))
    assert found is None or set(found) == {m.name for m in metrics.activation_measures()}


@pytest.mark.parametrize("name", ["usage", "rule_probs", "rule_frequencies", "groups"])
@few
@given(value=anything | matrices)
def test_what_goes_with_a_matrix(name, value):
    survives(lambda: metrics.measure_all(np.eye(3), **{name: value}))


@pytest.mark.parametrize("name", NAMES)
@few
@given(value=anything | matrices)
def test_measure_activations(name, value):
    given_ = {"activations": GOOD, "labels": np.arange(12) % 3, "permutations": 2, name: value}
    found = survives(lambda: modtf.measure_activations(**given_))
    assert found is None or len(found) >= 0
