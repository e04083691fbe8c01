"""Properties that hold for every activation matrix."""

import math
from itertools import product

import numpy as np
import pytest
from activation_strategies import FAST, distributions, matrices
from hypothesis import given
from hypothesis import strategies as st

from modtf.metrics import (
    GROUPS,
    activation_measures,
    alignment,
    best_match,
    best_permutation,
    effective_experts,
    effective_rank,
    expert_overlap,
    inverse_mutual_information,
    routing_entropy,
    top_label_share,
)


@pytest.mark.parametrize("measure", activation_measures(GROUPS), ids=lambda measure: measure.name)
class TestEveryMeasure:
    @FAST
    @given(A=matrices())
    def test_stays_in_range(self, measure, A):
        low, high = measure.range
        value = measure.function(A)
        assert low <= value <= high or (np.isnan(value) and measure.name == "expert_overlap")

    @FAST
    @given(A=matrices(), data=st.data())
    def test_order_of_modules_does_not_matter(self, measure, A, data):
        order = data.draw(st.permutations(range(A.shape[1])))
        expected = pytest.approx(measure.function(A), abs=1e-9, nan_ok=True)
        assert measure.function(A[:, order]) == expected

    @FAST
    @given(A=matrices())
    def test_float32_makes_no_difference(self, measure, A):
        expected = pytest.approx(measure.function(A), abs=1e-5, nan_ok=True)
        assert measure.function(A.astype(np.float32)) == expected


@pytest.mark.parametrize(
    "measure",
    [measure for measure in activation_measures(GROUPS) if measure.accepts("rule_probs")],
    ids=lambda measure: measure.name,
)
class TestEveryMeasureUnderOneRuleDistribution:
    @FAST
    @given(A=matrices(), data=st.data())
    def test_stays_in_range(self, measure, A, data):
        low, high = measure.range
        value = measure.function(A, rule_probs=data.draw(distributions((len(A),))))
        assert low <= value <= high or np.isnan(value)

    @FAST
    @given(A=matrices())
    def test_the_default_is_uniform(self, measure, A):
        uniform = np.full(len(A), 1 / len(A))
        expected = pytest.approx(measure.function(A), abs=1e-12, nan_ok=True)
        assert measure.function(A, rule_probs=uniform) == expected

    @FAST
    @given(A=matrices(), data=st.data())
    def test_order_of_rules_does_not_matter(self, measure, A, data):
        order = data.draw(st.permutations(range(len(A))))
        probs = data.draw(distributions((len(A),)))
        expected = pytest.approx(measure.function(A, rule_probs=probs), abs=1e-6, nan_ok=True)
        assert measure.function(A[order], rule_probs=probs[order]) == expected


@FAST
@given(A=matrices(square=True))
def test_the_best_permutation_has_the_alignment(A):
    order = best_permutation(A)
    assert sorted(order) == list(range(len(A)))
    distance = np.abs(A[:, order] - np.eye(len(A))).sum() / (2 * len(A))
    assert distance == pytest.approx(alignment(A), abs=1e-9)


@FAST
@given(A=matrices(max_size=4), data=st.data())
def test_alignment_is_the_minimum_over_even_matches(A, data):
    num_rules, num_modules = A.shape
    probs = data.draw(distributions((num_rules,)))
    low, high = num_rules // num_modules, -(-num_rules // num_modules)
    best = np.inf
    for match in product(range(num_modules), repeat=num_rules):
        load = np.bincount(match, minlength=num_modules)
        if low <= load.min() and load.max() <= high:
            best = min(best, probs @ np.abs(A - np.eye(num_modules)[list(match)]).sum(axis=1) / 2)
    assert alignment(A, probs) == pytest.approx(best, abs=1e-12)
    load = np.bincount(best_match(A), minlength=num_modules)
    assert low <= load.min()
    assert load.max() <= high


@FAST
@given(A=matrices(square=True))
def test_only_permutations_are_perfectly_specialised(A):
    is_permutation = np.allclose(A[A > 0.5], 1, atol=1e-6) and np.allclose(A.sum(axis=0), 1, atol=1e-6)
    one_hot = np.allclose(A.max(axis=1), 1, atol=1e-6)
    assert (alignment(A) < 1e-6) == (is_permutation and one_hot)


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
@given(A=matrices(), spare=st.integers(1, 3))
def test_unused_modules_change_no_number_of_used_ones(A, spare):
    padded = np.pad(A, ((0, 0), (0, spare)))
    for measure in (effective_experts, effective_rank, expert_overlap, top_label_share):
        assert measure(padded) == pytest.approx(measure(A), abs=1e-9, nan_ok=True)
