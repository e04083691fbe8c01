"""What evaluations read: the stream, with what the metric of an output needs; built once."""

import numpy as np
import pytest

from modtf.datasets.streaming import stream
from modtf.evaluation.batches import evaluation_batches
from modtf.metrics import rule_distributions
from modtf.population import Population
from modtf.task import Task

POPULATION = Population.of([Task("mha", num_rules=3, data_seed=i) for i in range(2)])


def elements(found, count=4):
    return list(getattr(found, "dataset", found).take(count).as_numpy_iterator())


def test_the_target_is_the_streams():
    found = elements(evaluation_batches(POPULATION, "target", 4, "test", scale=2.0))
    expected = elements(stream(POPULATION, 4, "test", scale=2.0))
    for (features, target), (same_features, same_target) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(target["target"], same_target)
        for name, value in same_features.items():
            np.testing.assert_array_equal(features[name], value)


@pytest.mark.parametrize("draws", [None, 3])
def test_activation_needs_rule_and_draw(draws):
    rule_probs = None if draws is None else rule_distributions(3, draws)
    found = elements(evaluation_batches(POPULATION, "activation", 4, "validation", draws))
    expected = elements(stream(POPULATION, 4, "validation", rule_probs=rule_probs))
    for step, ((_, needed), (features, _)) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(needed["activation"], features["rule"] + 3 * (step % (draws or 1)))


def test_a_pipeline_is_built_once_for_all_models_of_a_population():
    first = evaluation_batches(POPULATION, "target", 4, "test", seq_len=3)
    same = Population.of([Task("mha", num_rules=3, data_seed=i) for i in range(2)])
    assert evaluation_batches(same, "target", 4, "test", seq_len=3) is first
    others = [
        evaluation_batches(POPULATION.with_seed(1), "target", 4, "test", seq_len=3),
        evaluation_batches(POPULATION, "target", 4, "validation", seq_len=3),
        evaluation_batches(POPULATION, "target", 5, "test", seq_len=3),
        evaluation_batches(POPULATION, "target", 4, "test", seq_len=5),
    ]
    assert all(other is not first for other in others)
