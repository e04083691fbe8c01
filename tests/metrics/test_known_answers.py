"""Matrices small enough to work out by hand, one table for all measures."""

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from activation_strategies import adaptation_by_hand

from modtf.metrics import (
    GROUPS,
    MAIN_GROUPS,
    alignment,
    best_match,
    best_permutation,
    effective_experts,
    expert_overlap,
    load_variation,
    measure_all,
    routing_entropy,
    top_label_share,
    uniform_activation,
)


def hill(*shares):
    """Return exp of the entropy of shares, which are normalised first."""
    return math.exp(-sum(s / sum(shares) * math.log(s / sum(shares)) for s in shares))


UNIFORM = uniform_activation(4)
ONE_DEAD = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1 / 3, 1 / 3, 1 / 3, 0]])
ONE_FOR_ALL = np.eye(4)[[1, 1, 1, 1]]
SHARED = np.eye(4)[[0, 0, 1, 2]]  # rules 0 and 1 share a module, module 3 is never used
HALF = 0.5 * np.eye(4) + 0.5 * UNIFORM
ROOT_2, NAN = math.sqrt(2), math.nan

# name: matrix; collapse_avg, collapse_worst, alignment, inverse_mutual_information;
# load_variation, routing_entropy, effective_experts, effective_rank, expert_overlap, top_label_share
CASES: dict[str, Any] = {
    "identity": (np.eye(4), [0, 0, 0, 0], [0, 0, 4, 4, 0, 1]),
    "permutation": (np.eye(4)[[2, 0, 3, 1]], [0, 0, 0, 0], [0, 0, 4, 4, 0, 1]),
    "uniform": (UNIFORM, [0, 0, 3 / 4, 1], [0, 1, 4, 1, 1, 1 / 4]),
    # p(m) = 1/3, 1/3, 1/3, 0: shortfall 1/4, times 4/3. The best match leaves rule 3 to the dead module.
    # I = H(m) - H(m|r) = log 3 - log(3)/4. A'A = 1 + J/9 on the three: singular values sqrt(4/3), 1, 1. Two
    # columns have the product 1/9 and the length sqrt(10/9).
    "one dead module": (
        ONE_DEAD,
        [1 / 3, 1, 1 / 4, 1 - 0.75 * math.log(3) / math.log(4)],
        [math.sqrt(1 / 3), math.log(3) / math.log(4) / 4, 3, hill(math.sqrt(4 / 3), 1, 1), 0.1, 3 / 4],
    ),
    "one module for all": (ONE_FOR_ALL, [1, 1, 3 / 4, 1], [math.sqrt(3), 0, 1, 1, NAN, 1 / 4]),
    # p(m) = 1/2, 1/4, 1/4, 0; I = H(m) = 1.5 bits of 2.
    "two rules share a module": (
        SHARED,
        [1 / 3, 1, 1 / 4, 1 / 4],
        [math.sqrt(1 / 2), 0, 2 * ROOT_2, hill(ROOT_2, 1, 1), 0, 3 / 4],
    ),
    # Rows are 5/8 and three times 1/8: H(m|r) in bits is 5/8 log2(8/5) + 9/8. Columns are the same: product
    # 12/64, squared length 28/64. Singular values 1, 1/2 (3).
    "half specialised": (
        HALF,
        [0, 0, 3 / 8, (5 / 8 * math.log2(8 / 5) + 9 / 8) / 2],
        [0, (5 / 8 * math.log2(8 / 5) + 9 / 8) / 2, 4, hill(2, 1, 1, 1), 3 / 7, 5 / 8],
    ),
    # Each rule has its own module, a third one is dead: p(m) = 1/2, 1/2, 0.
    "more modules than rules": (np.eye(2, 3), [0.5, 1, 0, 0], [ROOT_2 / 2, 0, 2, 2, 0, 1]),
    "fewer modules than rules": (np.eye(2)[[0, 1, 1, 0]], [0, 0, 0, 0], [0, 0, 2, 2, 0, 1 / 2]),
}


@pytest.mark.parametrize("groups", [MAIN_GROUPS, ["diagnostic"]], ids=["main", "diagnostic"])
@pytest.mark.parametrize("case", CASES)
def test_known_answers(case, groups):
    A, main, diagnostic = CASES[case]
    answers = [*main, adaptation_by_hand(A), *diagnostic]
    expected = dict(zip(measure_all(A, groups=GROUPS), answers, strict=True))
    values = measure_all(A, groups=groups)
    assert values == pytest.approx({name: expected[name] for name in values}, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(("num_rules", "num_modules"), [(2, 2), (8, 8), (32, 32), (3, 5), (5, 3), (7, 2)])
def test_the_random_row(num_rules, num_modules):
    values = measure_all(uniform_activation(num_rules, num_modules))
    assert values.pop("adaptation") > 0.4
    assert list(values.values()) == pytest.approx([0, 0, 1 - 1 / num_modules, 1], abs=1e-12)


def test_unequal_rules():
    # p(m) = 0.7, 0.3, so shortfall 0.2 of at most 0.5; everything else is one rule, one module.
    values = measure_all(np.eye(2), rule_probs=[0.7, 0.3])
    assert list(values.values()) == pytest.approx([0.4, 0.4, 0, 0, 0], abs=1e-12)


@pytest.mark.parametrize("probs", [[0.25] * 4, [0.4, 0.3, 0.2, 0.1], [0.48, 0.24, 0.16, 0.12]])
def test_perfect_and_random_routing_of_unequal_rules(probs):
    """Perfect routing loads modules as rules occur; random routing has the same values whatever p(r)."""
    perfect = measure_all(np.eye(4)[[2, 0, 3, 1]], rule_probs=probs)
    shortfall = sum(max(0, 1 / 4 - p) for p in probs) * 4 / 3
    expected = {"collapse_avg": shortfall, "collapse_worst": 1 - 4 * min(probs)}
    expected |= dict.fromkeys(("alignment", "inverse_mutual_information", "adaptation"), 0)
    assert perfect == pytest.approx(expected, abs=1e-12)
    random = measure_all(UNIFORM, rule_probs=probs)
    expected = {**measure_all(UNIFORM), "adaptation": random["adaptation"]}
    assert random == pytest.approx(expected, abs=1e-12)
    order, A = np.arange(4), HALF[[1, 1, 2, 3]]
    best = min(
        sum(p * (1 - row[m]) for p, row, m in zip(probs, A, match, strict=True))
        for match in permutations(order)
    )
    assert measure_all(A, rule_probs=probs)["alignment"] == pytest.approx(best)


def test_diagnostics_of_unequal_rules():
    probs = [0.8, 0.2]
    assert load_variation(np.eye(2), probs) == pytest.approx(0.6)
    assert routing_entropy([[0.5, 0.5], [1.0, 0.0]], probs) == pytest.approx(0.8)
    assert effective_experts(np.eye(2), probs) == pytest.approx(5 / 4**0.8)
    assert top_label_share(uniform_activation(2), probs) == pytest.approx(0.8)
    # columns (0.6, 0.1) and (0.2, 0.1) of the joint distribution
    assert expert_overlap([[0.75, 0.25], [0.5, 0.5]], probs) == pytest.approx(0.13 / math.sqrt(0.37 * 0.05))


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
