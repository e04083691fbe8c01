"""What evaluations read: the stream, with what the metric of an output needs; built once."""

import numpy as np

from modtf.condition import Condition
from modtf.evaluation.batches import alike, evaluation_batches
from modtf.population import Population
from modtf.task import Task

POPULATION = Population.of([Task("mha", num_rules=3, data_seed=i) for i in range(2)])


IID, LONGER = Condition("iid", "as in training", True), Condition("len3", "3 tokens", seq_len=3)


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
