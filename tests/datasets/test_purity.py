"""A batch is a function of (task, split, seed, step), and of nothing else."""

import numpy as np
import pytest

from modtf.datasets import host_ops
from modtf.datasets.plan import rule_data
from modtf.population import Population


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("batch_size", "start"),
    [(64, 65), (1000, 3)],  # many steps in a block; one, where tokens are many
)
def test_resumes_anywhere(draw, any_family, batch_size, start):
    straight = draw(any_family, start + 2, batch_size=batch_size)
    again = draw(any_family, 2, batch_size=batch_size, start_step=start)
    for one, other in zip(straight[start:], again, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_member_sees_what_it_sees_alone(draw, any_family, split):
    tasks, seeds = [any_family.replace(data_seed=d) for d in (0, 1, 0)], [0, 7, 7]
    options = {"batch_size": 40, "split": split, "start_step": 3}
    alone = draw(tasks[1], 2, seed=7, **options)
    for one, three in zip(alone, draw(tasks, 2, seed=seeds, **options), strict=True):
        assert_same(one, [array[:, 1] for array in three])


def test_a_population_is_its_tasks_and_seeds(draw, any_family):
    population = Population.of([any_family, any_family.replace(data_seed=3)], [2, 5])
    [one] = draw(population, 1, batch_size=16)
    [other] = draw(list(population.tasks), 1, batch_size=16, seed=[2, 5])
    assert_same(one, other)
    [again] = draw(population, 1, batch_size=16, seed=[5, 5])  # seeds that are given count
    assert_same([array[:, 1] for array in one], [array[:, 1] for array in again])
    assert not np.array_equal(one[0][:, 0], again[0][:, 0])


def test_two_iterations_and_a_longer_one(draw, any_family):
    short, long = (draw(any_family, count, split="validation", batch_size=100) for count in (2, 4))
    for one, other in zip(short, long[:2], strict=True):
        assert_same(one, other)


def test_scale_multiplies_the_inputs(draw, any_family):
    [(inputs, rule, target)] = draw(any_family, 1, batch_size=50)
    [(twice, same_rule, twice_target)] = draw(any_family, 1, batch_size=50, scale=2.0)
    assert_same((2 * inputs, rule), (twice, same_rule))
    np.testing.assert_allclose(twice_target, 2 * target, rtol=1e-6, atol=1e-6)


ALPHA = {0: [1.76405235, 0.40015721], 1: [1.62434536, -0.61175641], 4: [0.05056171, 0.49995133]}


@pytest.mark.parametrize("data_seed", ALPHA)
def test_published_parameters(any_family, data_seed):
    """The first numbers that RandomState(data_seed) draws, whatever they are called."""
    data = rule_data(Population.of(any_family.replace(data_seed=data_seed)), host_ops)
    first = next(iter(data.stacked.values()))[0].ravel()[:2]
    unit = np.sqrt(32) if any_family.arch == "rnn" else 1.0
    np.testing.assert_allclose(first * unit, ALPHA[data_seed], atol=1e-8)
