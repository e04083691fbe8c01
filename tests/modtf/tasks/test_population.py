"""How lists of tasks and seeds are read, once, where users call."""

from typing import Any

import numpy as np
import pytest

from modtf import Population, Task
from modtf.tasks.families import FAMILIES


@pytest.mark.parametrize("arch", FAMILIES)
def test_one_task_or_several(arch):
    task, other = Task(arch, data_seed=1), Task(arch)
    one = Population.of(task, 3)
    assert (one.tasks, one.seeds, one.has_axis, len(one)) == ((task,), (3,), False, 1)
    listed = Population.of([task], [3])
    assert (listed.tasks, listed.seeds, listed.has_axis) == ((task,), (3,), True)
    several = Population.of((task, other), np.arange(2).tolist())
    assert (several.tasks, several.seeds, len(several)) == ((task, other), (0, 1), 2)
    assert several.members == [(task, 0), (other, 1)]
    assert (several.task, several.family) == (task, FAMILIES[arch])


def test_a_population_is_read_as_it_is_and_seeds_are_zero_unless_given():
    assert Population.of(Task()).seeds == (0,)
    assert Population.of([Task(), Task()]).seeds == (0, 0)
    population = Population.of([Task(), Task(data_seed=1)], [4, 5])
    assert Population.of(population) is population
    assert Population.of(population, [6, 7]) == Population.of(population.tasks, [6, 7])
    assert Population.of(Population.of(Task(), 1), 2) == Population.of(Task(), 2)
    assert population.with_seed(9) == Population.of(population.tasks, [9, 9])
    with pytest.raises(ValueError, match="seed=-1"):
        population.with_seed(-1)


def test_shapes_tell_what_fits():
    pairs: list[Any] = [(Task(), 0), ([Task()], [0]), ([Task()] * 2, [0, 1]), (Task(num_rules=3), 0)]
    others = [Task(setting="classification"), Task("mha"), Task("mha", search="v2")]
    shapes = [Population.of(*pair).shape for pair in [*pairs, *((task, 0) for task in others)]]
    assert len(set(shapes)) == len(shapes)
    assert Population.of(Task(data_seed=3), 7).shape == shapes[0]


def test_described_in_words():
    assert Population.of(Task()).describe() == "mlp_regression_r2_task0"
    assert Population.of([Task()] * 2).describe() == "a list of 2 tasks like mlp_regression_r2_task0"


@pytest.mark.parametrize(
    ("task", "seed", "message"),
    [
        (Task(), [0], "one seed"),
        (Task(), 0.5, "seed=0.5"),
        (Task(), -1, "seed=-1"),
        ([Task()], 0, "expected a list of"),
        ([Task()], [0, 1], "1 and 2"),
        ([], [], "at least one"),
        ([Task(), Task(num_rules=4)], [0, 1], "mlp_regression_r2_task0, mlp_regression_r4_task0"),
        ([Task(), "mlp"], [0, 1], "Expected a modtf.Task"),
        (3, 0, "Expected a modtf.Task"),
        (Population.of(Task()), [0], "one seed"),
    ],
)
def test_refuses(task, seed, message):
    with pytest.raises(ValueError, match=message):
        Population.of(task, seed)
