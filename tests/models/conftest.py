"""What the tests of the models loop over: every architecture, task, router and option in the registries."""

from itertools import product

import numpy as np
import pytest

from modtf.datasets.streaming import task_family
from modtf.models.architectures import ARCHITECTURES
from modtf.models.cells import CELLS
from modtf.models.routers import ROUTERS
from modtf.task import SEARCHES, Task


def tasks_of_every_kind():
    """A regression task of every architecture, search and target that go together."""
    tasks = []
    for arch, search, target in product(ARCHITECTURES, (None, *SEARCHES), ("output", "state")):
        try:
            tasks.append(Task(arch, "regression", 3, search, target=target))  # 3 divides no width evenly
        except ValueError:
            continue
    return list(dict.fromkeys(tasks))


KINDS = [
    (task, options)
    for task in tasks_of_every_kind()
    for options in ([{"cell": cell} for cell in CELLS] if task.arch == "rnn" else [{}])
]


def kind_name(kind):
    task, options = kind
    return "_".join([task.name, *options.values()])


@pytest.fixture(params=KINDS, ids=kind_name)
def kind(request):
    """(task, options of build): one of every kind, R = 3; regression, as no model knows its setting."""
    return request.param


@pytest.fixture(params=tuple(ARCHITECTURES))
def arch(request):
    """The name of every architecture."""
    return request.param


@pytest.fixture(params=tuple(ROUTERS))
def variant(request):
    """The name of every router."""
    return request.param


@pytest.fixture(scope="session")
def random_batch():
    """random_batch(tasks, batch, seq_len) -> features and targets of a population, float64."""

    def make(tasks, batch=4, seq_len=4, seed=0):
        rng = np.random.default_rng(seed)
        family, task = task_family(tasks), tasks[0]
        tokens = [batch, len(tasks), *([seq_len] if family.is_sequence else [])]
        features = {
            "inputs": rng.standard_normal([*tokens, family.token_width]),
            "rule": rng.integers(task.num_rules, size=tokens).astype(np.int32),
        }
        target = rng.standard_normal([*tokens, *([family.target_width] if family.target_width else [])])
        return features, (target >= 0) * 1.0 if task.setting == "classification" else target

    return make
