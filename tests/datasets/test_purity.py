"""A batch is a function of (task, split, seed, step), and of nothing else."""

import numpy as np
import pytest

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
