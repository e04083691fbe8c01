"""What evaluations read: the stream, with what the metric of an output needs; built once."""

import numpy as np
import pytest
import tensorflow as tf

from modtf.condition import Condition
from modtf.datasets.streaming import stream
from modtf.evaluation.batches import alike, evaluation_batches
from modtf.evaluation.source import Source
from modtf.metrics import rule_distributions
from modtf.population import Population
from modtf.task import Task

POPULATION = Population.of([Task("mha", num_rules=3, data_seed=i) for i in range(2)])


IID, LONGER = Condition("iid", "as in training", True), Condition("len3", "3 tokens", seq_len=3)


def elements(found, count=4):
    if not isinstance(found, Source):
        return list(found.take(count).as_numpy_iterator())
    with found.first(count) as iterator:
        return [tf.nest.map_structure(lambda t: t.numpy(), next(iterator)) for _ in range(count)]


def test_the_target_is_the_streams():
    found = elements(
        evaluation_batches(POPULATION, "target", 4, "test", (Condition("scale2", "x 2", scale=2.0),))
    )
    expected = elements(stream(POPULATION, 4, "test", scale=2.0))
    for (features, target), (same_features, same_target) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(target["target"], same_target)
        for name, value in same_features.items():
            np.testing.assert_array_equal(features[name], value)


@pytest.mark.parametrize("draws", [None, 3])
def test_activation_needs_rule_and_draw(draws):
    rule_probs = None if draws is None else rule_distributions(3, draws)
    found = elements(evaluation_batches(POPULATION, "activation", 4, "validation", (IID,), draws))
    expected = elements(stream(POPULATION, 4, "validation", rule_probs=rule_probs))
    for step, ((_, needed), (features, _)) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(needed["activation"], features["rule"] + 3 * (step % (draws or 1)))


def test_a_pipeline_is_built_once_for_all_models_of_a_population():
    first = evaluation_batches(POPULATION, "target", 4, "test", (LONGER,))
    same = Population.of([Task("mha", num_rules=3, data_seed=i) for i in range(2)])
    assert evaluation_batches(same, "target", 4, "test", (LONGER,)) is first
    others = [
        (POPULATION.with_seed(1), "target", 4, "test", (LONGER,)),
        (POPULATION, "target", 4, "validation", (LONGER,)),
        (POPULATION, "target", 5, "test", (LONGER,)),
        (POPULATION, "target", 4, "test", (IID,)),
    ]
    assert all(evaluation_batches(*other) is not first for other in others)


def test_conditions_that_differ_in_arrays_alone_are_alike():
    def of(name, **options):
        return Condition(name, name, options=options)

    a, b, longer = (
        of("a", order=np.array([1, 2])),
        of("b", order=np.array([2, 0])),
        of("c", order=np.arange(3)),
    )
    other = of("d", order=np.array([1, 2]), kind="x")
    assert alike([IID, a, LONGER, b, longer, other]) == [(IID,), (a, b), (LONGER,), (longer,), (other,)]
