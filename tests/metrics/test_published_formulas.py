"""With as many modules as rules, every measure equals the published formula, written here without NumPy. The
generalisations to other numbers of modules keep the value where only unused modules are added."""

import math
from itertools import permutations

import numpy as np
import pytest
from activation_strategies import FAST, adaptation_by_hand, matrices
from hypothesis import given
from hypothesis import strategies as st

from modtf.metrics import measure_all


def use(A):
    return [math.fsum(row[m] for row in A) / len(A) for m in range(len(A))]


def collapse_avg(A):
    R = len(A)
    return R / (R - 1) * sum(max(0.0, 1 / R - p) for p in use(A))


def collapse_worst(A):
    return 1 - len(A) * min(use(A))


def alignment(A):
    R = len(A)
    return min(
        sum(abs(A[r][m] - (order[r] == m)) for r in range(R) for m in range(R)) / (2 * R)
        for order in permutations(range(R))
    )


def inverse_mutual_information(A):
    R, p = len(A), use(A)
    told = [(A[r][m], p[m]) for r in range(R) for m in range(R) if A[r][m] > 1e-300]  # p[m] > 0
    terms = [a / R * math.log(a / b) for a, b in told]
    return 1 - sum(terms) / math.log(R)


PUBLISHED = (collapse_avg, collapse_worst, alignment, inverse_mutual_information)


@FAST
@given(A=matrices(square=True))
def test_square_matrices(A):
    expected = {f.__name__: f(A.tolist()) for f in PUBLISHED} | {"adaptation": adaptation_by_hand(A)}
    assert measure_all(A) == pytest.approx(expected, abs=1e-9)


@FAST
@given(A=matrices(square=True), spare=st.integers(1, 4))
def test_modules_that_are_never_used_change_no_specialisation(A, spare):
    values, padded = measure_all(A), measure_all(np.pad(A, ((0, 0), (0, spare))))
    for name in ("alignment", "inverse_mutual_information", "adaptation"):
        assert padded[name] == pytest.approx(values[name], abs=1e-12)
    assert padded["collapse_worst"] == 1


def test_equal_use_is_out_of_reach_where_modules_do_not_divide_rules():
    best = (math.log(3) - 2 / 3 * math.log(2)) / math.log(2)  # H(2/3, 1/3)
    value = measure_all(np.eye(2)[[0, 1, 1]])["inverse_mutual_information"]
    assert value == pytest.approx(1 - best)
    assert round(value, 2) == 0.08


def test_unequal_rules_with_few_modules():
    """H(r) < log M: the rule's entropy is the bound."""
    values = measure_all(np.eye(3)[[0, 1, 2, 2]], rule_probs=[0.9, 0.1, 0, 0])
    assert values["inverse_mutual_information"] == pytest.approx(0, abs=1e-12)
