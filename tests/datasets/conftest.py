"""What the tests of the data loop over: every kind of task that the registry of families knows."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from modtf.datasets.families import FAMILIES
from modtf.datasets.streaming import stream
from modtf.task import SEARCHES, SETTINGS, Task

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


def task_kinds(**options: Any) -> list[Task]:
    """A task of every family, search, setting and target that go together."""
    tasks = []
    for arch, search, setting, target in product(FAMILIES, (None, *SEARCHES), SETTINGS, ("output", "state")):
        try:
            tasks.append(Task(arch=arch, search=search, setting=setting, target=target, **options))
        except ValueError:
            continue
    return list(dict.fromkeys(tasks))


KINDS = task_kinds(num_rules=5, data_seed=1)
FAMILY_KINDS = [task for task in KINDS if task.setting == "regression" and task.target == "output"]


@pytest.fixture(params=KINDS, ids=lambda task: task.name)
def any_task(request: pytest.FixtureRequest) -> Task:
    """One task of every family x search x setting x target, R = 5."""
    return request.param


@pytest.fixture(params=FAMILY_KINDS, ids=lambda task: task.family)
def any_family(request: pytest.FixtureRequest) -> Task:
    """One regression task of every family x search, R = 5."""
    return request.param


def batches(task: Task | Sequence[Task], count: int, **options: Any) -> Iterator[Batch]:
    for features, target in islice(stream(task, **options), count):
        yield features["inputs"].numpy(), features["rule"].numpy(), target.numpy()


@pytest.fixture
def draw() -> Callable[..., list[Batch]]:
    """draw(task, count, **options of stream) -> the first `count` batches (inputs, rule, target)."""
    return lambda task, count, **options: list(batches(task, count, **options))
