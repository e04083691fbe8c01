"""Properties of the practitioners' measures; their known answers are in test_known_answers.py."""

import math

import numpy as np
import pytest
from activation_strategies import FAST, distributions, matrices
from hypothesis import given
from hypothesis import strategies as st

from modtf.metrics import (
    effective_experts,
    effective_rank,
    expert_overlap,
    inverse_mutual_information,
    load_variation,
    routing_entropy,
    top_label_share,
    uniform_activation,
)


def test_unequal_rules():
    probs = [0.8, 0.2]
    assert load_variation(np.eye(2), probs) == pytest.approx(0.6)
    assert routing_entropy([[0.5, 0.5], [1.0, 0.0]], probs) == pytest.approx(0.8)
    assert effective_experts(np.eye(2), probs) == pytest.approx(5 / 4**0.8)
    assert top_label_share(uniform_activation(2), probs) == pytest.approx(0.8)
    # columns (0.6, 0.1) and (0.2, 0.1) of the joint distribution
    assert expert_overlap([[0.75, 0.25], [0.5, 0.5]], probs) == pytest.approx(0.13 / math.sqrt(0.37 * 0.05))


@FAST
@given(A=matrices(), data=st.data())
def test_the_difference_of_the_entropies_is_the_mutual_information(A, data):
    probs = data.draw(distributions((len(A),)))
    of_rules = -sum(p * math.log(p) for p in probs if p > 0)
    log_m = math.log(A.shape[1])
    information = math.log(effective_experts(A, probs)) - routing_entropy(A, probs) * log_m
    if of_rules > 1e-3:
        expected = 1 - information / min(of_rules, log_m)
        assert inverse_mutual_information(A, probs) == pytest.approx(expected, abs=1e-9)


@FAST
@given(A=matrices(), data=st.data())
def test_purity_is_at_least_the_most_frequent_rule(A, data):
    probs = data.draw(distributions((len(A),)))
    assert top_label_share(A, probs) >= probs.max() - 1e-12


@FAST
@given(A=matrices())
def test_upper_bounds(A):
    num_rules, num_modules = A.shape
    assert load_variation(A) <= math.sqrt(num_modules - 1) + 1e-9
    assert effective_experts(A) <= num_modules
    assert effective_rank(A) <= min(num_rules, num_modules)
    assert top_label_share(A) <= min(1, num_modules / num_rules) + 1e-12


@FAST
@given(A=matrices(), spare=st.integers(1, 3))
def test_unused_modules_change_no_number_of_used_ones(A, spare):
    padded = np.pad(A, ((0, 0), (0, spare)))
    for measure in (effective_experts, effective_rank, expert_overlap, top_label_share):
        assert measure(padded) == pytest.approx(measure(A), abs=1e-9, nan_ok=True)


def test_a_module_that_is_hardly_used_hardly_changes_the_overlap():
    A = np.eye(3)[[0, 1, 1]]
    nearly = A + 1e-4 * np.array([[-1, 0, 1], [0, -1, 1], [0, -1, 1]])
    assert expert_overlap(A) == 0
    assert expert_overlap(nearly) == pytest.approx(0, abs=1e-3)
