"""Small sizes that the tests of training and evaluation share."""

import pytest

import modtf
from modtf import Cell, Evaluation, Protocol, Task, Training

SIZES = Evaluation(batches=2, tokens=160, draws=5, tokens_per_draw=80, batch_size=16, activation_batch_size=8)


@pytest.fixture(scope="session")
def small_sizes() -> Evaluation:
    """An evaluation of a few batches."""
    return SIZES


@pytest.fixture(scope="session")
def small_cell() -> Cell:
    """An mlp cell of two members and four evaluations."""
    training = Training(steps=8, learning_rate=1e-2, batch_size=16, evaluations=4)
    return Cell(Task(num_rules=3), 8, "modular", ((0, 0), (1, 2)), Protocol(training, SIZES))


@pytest.fixture(scope="session")
def batches():
    """batches(task, count, **options of stream) -> [(features, target)] as NumPy arrays."""

    def read(task, count, **options):
        return list(modtf.stream(task, **options).take(count).as_numpy_iterator())

    return read
