"""Measures of many matrices at once equal the registered measures of each matrix."""

import numpy as np
import pytest

from modtf.metrics import GROUPS, MEASURES, measure_all
from modtf.metrics.values import measure_stack


@pytest.mark.parametrize(("labels", "modules"), [(3, 7), (7, 3), (4, 4), (1, 4), (4, 1)])
def test_they_are_those_of_each_matrix(labels, modules):
    generator = np.random.default_rng(labels)
    A = generator.dirichlet(np.full(modules, 0.3), size=(20, labels))
    if modules > 2:
        A[3:6, :, 0] = 0  # a dead module
        A[5] = np.eye(modules)[np.ones(labels, int)]  # one module does everything
        A /= A.sum(axis=2, keepdims=True)
    probs = generator.dirichlet(np.full(labels, 3.0))
    found = measure_stack(A, probs, GROUPS)
    for row, one in enumerate(A):
        expected = measure_all(one, rule_probs=probs, groups=GROUPS)
        # Roots of eigenvalues are exact to 1e-8, and the effective rank of small ones to 2e-7.
        close = pytest.approx(expected, nan_ok=True, abs=1e-6)
        assert {name: values[row] for name, values in found.items()} == close


def test_every_measure_of_the_house_has_its_formula():
    for one in MEASURES.values():
        of_users = one.function is None or not one.function.__module__.startswith("modtf.")
        assert of_users or one.formula is not None
