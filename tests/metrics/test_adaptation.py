import numpy as np
import pytest

from modtf.metrics import adaptation, adaptation_from_usage, from_counts, rule_distributions


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
    assert adaptation(A, usage=rules @ A) == pytest.approx(adaptation(A, num_draws=draws))
    assert adaptation_from_usage(rules, rules @ A) == pytest.approx(adaptation(A, num_draws=draws))


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


def test_one_module_has_no_value():
    assert np.isnan(adaptation_from_usage([[0.5, 0.5]], [[1.0]]))
    assert np.isnan(adaptation(np.ones((2, 1)), usage=np.ones((3, 1))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.5]], [[1, 0], [0, 1]]), "usage has 2 rows; expected one for each of 1 rule distr"),
        (([[0.5, 0.6]], [[1, 0]]), "rule_distributions .* sums to 1.1"),
        (([[0.5, 0.5]], [[10, 0]]), "usage .* sums to 10"),
        (([0.5, 0.5], [[1, 0]]), r"rule_distributions .* shape \(2,\)"),
        (([[0.5, 0.5]], [1, 0]), r"usage .* shape \(2,\)"),
    ],
)
def test_from_usage_rejects(arguments, message):
    with pytest.raises(ValueError, match=message):
        adaptation_from_usage(*arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"usage": np.full((5, 3), 1 / 3)}, "usage has 3 modules, the activation matrix 2"),
        (
            {"rule_frequencies": np.full((5, 3), 1 / 3)},
            "rule_frequencies has 3 rules, the activation matrix 2",
        ),
        ({"rule_frequencies": np.full((4, 2), 0.5)}, "usage has 5 rows; expected one for each of 4"),
        ({"rule_frequencies": np.full((5, 2), 7)}, r"rule_frequencies \[draws, rules\].*sums to 14"),
        ({"rule_frequencies": [0.5, 0.5]}, r"rule_frequencies .* shape \(2,\)"),
    ],
)
def test_rejects_usage_and_frequencies_of_something_else(given, message):
    with pytest.raises(ValueError, match=message):
        adaptation(np.eye(2), **{"usage": np.full((5, 2), 0.5), **given})


@pytest.mark.parametrize("arguments", [(0, 5), (2, 0), (2, -1)])
def test_rule_distributions_rejects(arguments):
    said = r"num_(rules|draws)=-?\d is not valid; expected an integer of at least 1"
    with pytest.raises(ValueError, match=said):
        rule_distributions(*arguments)
