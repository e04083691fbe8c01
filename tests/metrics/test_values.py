import numpy as np
import pytest

from modtf.metrics import adaptation, collapse_worst, measure_all, measure_population, rule_distributions


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


FREQUENCIES = np.random.default_rng(1).dirichlet(np.ones(4), size=(3, 5))
PROBS = [0.4, 0.3, 0.2, 0.1]
PER_MEMBER = np.array([PROBS, [0.25] * 4, [0.1, 0.1, 0.1, 0.7]])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"groups": ["collapse"]},
        {"rule_probs": PROBS},
        {"rule_probs": PER_MEMBER, "usage": FREQUENCIES[::-1]},
        {"usage": FREQUENCIES[::-1], "rule_frequencies": FREQUENCIES},
    ],
    ids=lambda given: " ".join(given) or "nothing",
)
def test_a_population_is_its_members(population, given):
    together, found = measure_population(population, **given), []
    for i, matrix in enumerate(population):
        mine = {name: value[i] if isinstance(value, np.ndarray) else value for name, value in given.items()}
        found.append(measure_all(matrix, **mine))
        assert {name: values[i] for name, values in together.items()} == found[-1]
    assert all(values.shape == (3,) and values.dtype == np.float64 for values in together.values())
    assert given == {} or found[0] != measure_all(population[0])


def test_monolithic_population():
    values = measure_population(np.ones((2, 4, 1)))
    assert all(np.isnan(value).all() for value in values.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"A": np.full((4, 4), 0.25)}, r"shape \(4, 4\); expected 3"),
        ({"A": np.full((2, 4, 4), 0.3)}, r"row \[0, 0\] sums to 1\.2"),
        (
            {"usage": np.full((2, 5, 4), 0.25)},
            r"usage has shape \(2, 5, 4\); expected one entry per member \(3\)",
        ),
        ({"usage": np.full((5, 4), 0.25)}, r"usage has shape \(5, 4\)"),
        ({"rule_probs": np.full((2, 4), 0.25)}, r"rule_probs has shape \(2, 4\)"),
        ({"rule_frequencies": np.full((5, 4), 0.25)}, r"rule_frequencies has shape \(5, 4\)"),
        ({"rule_probs": 0.25}, r"rule_probs has shape \(\)"),
        ({"rule_probs": np.full(3, 1 / 3)}, "rule_probs has 3 entries.*4 rules"),
    ],
)
def test_population_rejects(population, arguments, message):
    with pytest.raises(ValueError, match=message):
        measure_population(**({"A": population} | arguments))
