"""More or fewer modules than rules, a single module, a single rule."""

import math

import numpy as np
import pytest

from modtf.metrics import GROUPS, alignment, best_match, best_permutation, measure_all, uniform_activation


def test_a_rule_spread_over_its_own_modules_is_told_but_not_aligned():
    values = measure_all([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])
    assert values["collapse_avg"] == values["collapse_worst"] == 0
    assert values["inverse_mutual_information"] == pytest.approx(0, abs=1e-12)
    assert values["alignment"] == pytest.approx(0.5)


def test_alignment_shares_rules_evenly_among_fewer_modules():
    three_and_one = np.eye(2)[[0, 0, 0, 1]]
    assert alignment(three_and_one) == pytest.approx(1 / 4)
    # Four rules, three modules: 2 + 1 + 1 is a match, 2 + 2 + 0 is not.
    assert alignment(np.eye(3)[[0, 0, 1, 2]]) == 0
    assert alignment(np.eye(3)[[0, 0, 1, 1]]) == pytest.approx(1 / 4)


@pytest.mark.parametrize("matrix", [np.ones((4, 1)), [[0.2, 0.8]], [[1.0]]])
def test_one_module_or_one_rule_has_no_value(matrix):
    values = measure_all(matrix, groups=GROUPS)
    assert len(values) == 11
    assert all(math.isnan(value) for value in values.values())


def test_rule_probs_that_leave_one_rule():
    values = measure_all(np.eye(2), rule_probs=[1, 0])
    assert math.isnan(values["inverse_mutual_information"])
    assert values["collapse_worst"] == 1


def test_best_permutation_orders_modules_along_the_diagonal():
    order = [2, 0, 3, 1]
    A = 0.7 * np.eye(4)[order] + 0.3 * uniform_activation(4)
    assert best_match(A).tolist() == order
    assert best_permutation(A).tolist() == order
    assert np.diag(A[:, best_permutation(A)]) == pytest.approx(0.775)


def test_best_permutation_with_other_numbers_of_modules():
    assert best_permutation([[0, 0, 1, 0], [0, 1, 0, 0]]).tolist() == [2, 1, 0, 3]
    assert best_permutation(np.eye(3)[[2, 2, 0, 1]]).tolist() == [2, 0, 1]
    assert best_permutation(np.ones((3, 1))).tolist() == [0]
