"""Activation matrices, use of modules, and measures of a matrix and of a population."""

import numpy as np
import pytest

from modtf.metrics import (
    GROUPS,
    MEASURES,
    TOLERANCE,
    adaptation,
    adaptation_from_usage,
    check_activation_matrix,
    collapse_worst,
    from_counts,
    measure_all,
    measure_population,
    rule_distributions,
    uniform_activation,
)
from modtf.metrics.values import measure_stack

FREQUENCIES = np.random.default_rng(1).dirichlet(np.ones(4), size=(3, 5))
PROBS = [0.4, 0.3, 0.2, 0.1]
PER_MEMBER = np.array([PROBS, [0.25] * 4, [0.1, 0.1, 0.1, 0.7]])


def test_returns_float64_rows_that_sum_to_one():
    A = np.array([[0.3, 0.7], [0.1, 0.9]], np.float32) * np.float32(1 + 0.9 * TOLERANCE)
    checked = check_activation_matrix(A)
    assert checked.dtype == np.float64
    assert checked.sum(axis=1) == pytest.approx(1, abs=1e-15)
    assert checked == pytest.approx(np.array([[0.3, 0.7], [0.1, 0.9]]), abs=1e-7)


def test_leaves_its_argument_alone():
    A = np.array([[0.5, 0.5005], [1.0, 0.0]])
    before = A.copy()
    check_activation_matrix(A)[:] = 0
    np.testing.assert_array_equal(A, before)


def test_the_tolerance_covers_float32_sums_over_a_million_tokens():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(4000, 256, 8)).astype(np.float32)
    activation = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    sums = np.zeros((1, 8), np.float32)
    for batch in activation:
        sums += batch.sum(axis=0)
    rows = sums / np.float32(4000 * 256)
    assert abs(float(rows.sum()) - 1) < TOLERANCE / 10
    check_activation_matrix(rows)


def test_from_counts_of_a_population():
    counts = np.array([[4, 2], [1, 8], [3, 3]])
    A = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 2))
    np.testing.assert_allclose(from_counts(A * counts[..., np.newaxis], counts), A)


def test_uniform_activation():
    np.testing.assert_array_equal(uniform_activation(2), np.full((2, 2), 0.5))
    np.testing.assert_array_equal(uniform_activation(3, 4), np.full((3, 4), 0.25))


@pytest.fixture
def population():
    return np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 4))


def test_passes_what_each_measure_asks_for(population):
    A = population[0]
    usage = np.roll(rule_distributions(4, num_draws=10) @ A, 1, axis=0)
    values = measure_all(A, usage=usage, rule_probs=[0.4, 0.3, 0.2, 0.1])
    assert values["adaptation"] == adaptation(A, usage=usage) != adaptation(A)
    assert values["collapse_worst"] == collapse_worst(A, [0.4, 0.3, 0.2, 0.1]) != collapse_worst(A)
    assert all(type(value) is float for value in values.values())


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"groups": ["collapse"]},
        {"rule_probs": PROBS},
        {"rule_probs": PER_MEMBER, "usage": FREQUENCIES[::-1]},
        {"usage": FREQUENCIES[::-1], "rule_frequencies": FREQUENCIES},
    ],
    ids=lambda given: " ".join(given) or "nothing",
)
def test_a_population_is_its_members(population, named):
    together, alone = measure_population(population, **named), []
    for i, matrix in enumerate(population):
        own = {name: value[i] if isinstance(value, np.ndarray) else value for name, value in named.items()}
        alone.append(measure_all(matrix, **own))
        assert {name: values[i] for name, values in together.items()} == alone[-1]
    assert all(values.shape == (3,) and values.dtype == np.float64 for values in together.values())
    assert named == {} or alone[0] != measure_all(population[0])


def test_rule_distributions_are_the_published_draws():
    draws = rule_distributions(4)
    assert draws.shape == (100, 4)
    for i in (0, 57, 99):
        np.testing.assert_array_equal(draws[i], np.random.RandomState(i).dirichlet(np.ones(4)))
    np.testing.assert_array_equal(rule_distributions(4, num_draws=7), draws[:7])


def test_rule_distributions_cannot_be_spoilt():
    with pytest.raises(ValueError, match="read-only"):
        rule_distributions(3)[0, 0] = 1


def test_numpy_global_state_is_left_alone():
    before = np.random.get_state(legacy=False)["state"]["key"].copy()
    rule_distributions(3, num_draws=11)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], before)


@pytest.mark.parametrize("draws", [3, 100])
def test_exact_usage_and_the_distributions_themselves_give_the_default(draws):
    A = np.random.default_rng(0).dirichlet(np.ones(5), size=4)
    rules = rule_distributions(4, num_draws=draws)
    assert adaptation(A, rule_frequencies=rules) == adaptation(A, num_draws=draws)
    assert adaptation(A, usage=rules @ A, num_draws=draws) == pytest.approx(adaptation(A, num_draws=draws))
    assert adaptation_from_usage(rules, rules @ A) == pytest.approx(adaptation(A, num_draws=draws))


@pytest.mark.parametrize("draws", [5, 10, 20])
def test_usage_under_few_distributions_describes_as_many_as_without_usage(draws):
    """Random routing of two rules has 0.48 over the first five distributions, and 0.51 over the hundred."""
    even = np.full((2, 2), 0.5)
    rules = rule_distributions(2, num_draws=draws)
    assert adaptation(even, usage=rules @ even) == pytest.approx(adaptation(even))
    rng, errors = np.random.default_rng(0), []
    rules_of_four = [rule_distributions(4, num_draws=k) for k in (draws, 100)]
    for A in rng.dirichlet(np.ones(4), size=(50, 4)):  # use is nearly p @ A, as in trained models
        usages = [0.9 * p @ A + 0.1 * p for p in rules_of_four]
        every = adaptation(A, usage=usages[1])
        errors.append(
            [adaptation(A, usage=usages[0]) - every, adaptation(A, usage=usages[0], num_draws=draws) - every]
        )
    better, raw = np.square(errors).mean(axis=0)
    assert better < raw / 2


@pytest.mark.parametrize("num_rules", [2, 8, 32])
def test_a_perfect_sampled_router_scores_exactly_zero(num_rules):
    """The reference is the tokens' own rules; the nominal draws differ from them by sampling error."""
    generator = np.random.default_rng(num_rules)
    order = generator.permutation(num_rules)
    draws = rule_distributions(num_rules)
    counts = np.stack([generator.multinomial(2_001, p) for p in draws])
    frequencies, usage = counts / 2_001, (counts / 2_001)[:, order]
    A = np.eye(num_rules)[:, order]
    assert adaptation(A, usage=usage) > 0.004
    assert adaptation(A, usage=usage, rule_frequencies=frequencies) == 0.0
    as_float32 = (usage.astype(np.float32), frequencies.astype(np.float32))
    counted = tuple(from_counts(c, counts.sum(axis=1)) for c in (counts[:, order], counts))
    for measured, rules in (as_float32, counted):
        assert adaptation(A, usage=measured, rule_frequencies=rules) == 0.0
    spare = np.pad(A, ((0, 0), (0, 3)))  # modules that are never used
    assert adaptation(spare, usage=np.pad(usage, ((0, 0), (0, 3))), rule_frequencies=frequencies) == 0.0


@pytest.mark.parametrize(
    ("rules", "usage", "expected"),
    [
        ([0.5, 0.5], [1, 0], 1),  # it is not halved: |1 - 1/2| + |0 - 1/2|
        (np.full(1000, 1 / 1000), np.eye(1000)[0], 2 * 0.999),  # it reaches 2 only in the limit
        ([0.5, 0.3, 0.2], [0.5, 0.5], 0.4),  # the shorter side is padded
        ([0.5, 0.5], [0.2, 0.3, 0.5], 0.4),
    ],
)
def test_known_answers_of_one_draw(rules, usage, expected):
    assert adaptation_from_usage([rules], [usage]) == pytest.approx(expected, abs=1e-15)


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
