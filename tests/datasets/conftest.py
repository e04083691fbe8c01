"""Fixtures of the data's tests: every task type in the registry of families."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from registering import forgotten

from modtf import Task, stream
from modtf.tasks.families import FAMILIES, Family, register_family

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


def task_kinds(**given: Any) -> list[Task]:
    """A task of every family, with all options and settings that go together."""
    tasks = []
    for name, family in FAMILIES.items():
        later = {option.name for option in family.options if option.later}  # tested in test_variations.py
        values = [
            (option.default,) if option.name in later else option.choices or (option.default,)
            for option in family.options
        ]
        for setting, *chosen in product(family.settings, *values):
            options = {option.name: value for option, value in zip(family.options, chosen, strict=True)}
            try:
                tasks.append(Task(name, setting, **options, **given))
            except ValueError:
                continue
    return tasks


def is_first_of_its_data(task: Task) -> bool:
    """Return whether setting and options are the defaults, except for options that are always named."""
    always = {option.name for option in task.family.options if option.always_named}
    return task.setting == task.family.settings[0] and set(task.named_options) <= always


KINDS = task_kinds(num_rules=5, data_seed=1)
FAMILY_KINDS = [task for task in KINDS if is_first_of_its_data(task)]


@pytest.fixture(params=KINDS, ids=lambda task: task.name)
def any_task(request: pytest.FixtureRequest) -> Task:
    """One task of every family x option x setting, R = 5."""
    return request.param


@pytest.fixture(params=FAMILY_KINDS, ids=lambda task: task.kind)
def any_family(request: pytest.FixtureRequest) -> Task:
    """One regression task of every family x option that is always named, R = 5."""
    return request.param


@pytest.fixture
def draw() -> Callable[..., list[Batch]]:
    """draw(task, count, **options of stream) -> the first `count` batches (inputs, rule, target)."""

    def read(task: Task | Sequence[Task], count: int, **options: Any) -> list[Batch]:
        found = stream(task, **options).take(count).as_numpy_iterator()
        return [(features["inputs"], features["rule"], target) for features, target in found]

    return read


@pytest.fixture
def registered() -> Iterator[Callable[[type[Family]], str]]:
    """registered(a subclass of Family) -> its name, which is valid until the end of the test."""

    def register(family: type[Family]) -> str:
        register_family("toy")(family)
        return "toy"

    with forgotten(FAMILIES):
        yield register
