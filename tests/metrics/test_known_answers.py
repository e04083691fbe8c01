"""Matrices small enough to work out by hand, one table for all five measures."""

import math

import numpy as np
import pytest

from modtf.metrics import measure_all, rule_distributions, uniform_activation


def adaptation_by_hand(A):
    """The definition for square matrices, draw by draw."""
    total = 0.0
    for seed in range(100):
        p = np.random.RandomState(seed).dirichlet(np.ones(len(A)))
        q = [sum(p[r] * A[r][m] for r in range(len(A))) for m in range(len(A))]
        total += sum(abs(a - b) for a, b in zip(sorted(p), sorted(q), strict=True))
    return total / 100


IDENTITY = np.eye(4)
PERMUTATION = np.eye(4)[[2, 0, 3, 1]]
UNIFORM = uniform_activation(4)
ONE_DEAD = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1 / 3, 1 / 3, 1 / 3, 0]])
ONE_FOR_ALL = np.eye(4)[[1, 1, 1, 1]]
SHARED = np.eye(4)[[0, 0, 1, 2]]  # rules 0 and 1 share a module, module 3 is never used
HALF = 0.5 * np.eye(4) + 0.5 * UNIFORM

# name: matrix, collapse_avg, collapse_worst, alignment, inverse_mutual_information
CASES = {
    "identity": (IDENTITY, 0, 0, 0, 0),
    "permutation": (PERMUTATION, 0, 0, 0, 0),
    "uniform": (UNIFORM, 0, 0, 3 / 4, 1),
    # p(m) = 1/3, 1/3, 1/3, 0: shortfall 1/4, times 4/3. The best match leaves rule 3 to the dead module.
    # I = H(m) - H(m|r) = log 3 - log(3)/4.
    "one dead module": (ONE_DEAD, 1 / 3, 1, 1 / 4, 1 - 0.75 * math.log(3) / math.log(4)),
    "one module for all": (ONE_FOR_ALL, 1, 1, 3 / 4, 1),
    # p(m) = 1/2, 1/4, 1/4, 0; I = H(m) = 1.5 bits of 2.
    "two rules share a module": (SHARED, 1 / 3, 1, 1 / 4, 1 / 4),
    # Rows hold 5/8 and three times 1/8: H(m|r) in bits is 5/8 log2(8/5) + 9/8.
    "half specialised": (HALF, 0, 0, 3 / 8, (5 / 8 * math.log2(8 / 5) + 9 / 8) / 2),
}


@pytest.mark.parametrize("case", CASES)
def test_known_answers(case):
    A, avg, worst, align, imi = CASES[case]
    assert measure_all(A) == pytest.approx(
        {
            "collapse_avg": avg,
            "collapse_worst": worst,
            "alignment": align,
            "inverse_mutual_information": imi,
            "adaptation": adaptation_by_hand(A),
        },
        abs=1e-12,
    )


@pytest.mark.parametrize("case", ["identity", "permutation"])
def test_specialised_models_get_zero(case):
    values = measure_all(CASES[case][0])
    assert values == pytest.approx(dict.fromkeys(values, 0.0), abs=1e-15)


def test_adaptation_of_one_module_for_all():
    # q = (1, 0, 0, 0): the largest p is short by 1 - p_max, the others exceed by as much.
    largest = rule_distributions(4).max(axis=1)
    assert measure_all(ONE_FOR_ALL)["adaptation"] == pytest.approx(2 * (1 - largest).mean())


@pytest.mark.parametrize("num_rules", [2, 3, 8, 32])
def test_the_random_row(num_rules):
    values = measure_all(uniform_activation(num_rules))
    assert values["collapse_avg"] == pytest.approx(0, abs=1e-12)
    assert values["collapse_worst"] == pytest.approx(0, abs=1e-12)
    assert values["alignment"] == pytest.approx(1 - 1 / num_rules)
    assert values["inverse_mutual_information"] == pytest.approx(1)
    assert values["adaptation"] > 0.4


def test_unequal_rules():
    # p(m) = 0.7, 0.3, so shortfall 0.2 of at most 0.5; everything else is one rule, one module.
    values = measure_all(np.eye(2), rule_probs=[0.7, 0.3])
    assert values == pytest.approx(
        {
            "collapse_avg": 0.4,
            "collapse_worst": 0.4,
            "alignment": 0,
            "inverse_mutual_information": 0,
            "adaptation": 0,
        },
        abs=1e-12,
    )


def test_alignment_weights_rules_by_their_probability():
    assert measure_all([[1, 0], [1, 0]], rule_probs=[0.9, 0.1])["alignment"] == pytest.approx(0.1)
