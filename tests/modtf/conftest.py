"""Small sizes that the tests of training and evaluation share."""

from itertools import islice

import numpy as np
import pytest

from modtf import Cell, Evaluation, Protocol, Task, Training, stream

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
        return [
            ({name: value.numpy() for name, value in features.items()}, target.numpy())
            for features, target in islice(stream(task, **options), count)
        ]

    return read


@pytest.fixture(scope="session")
def numpy_activation():
    """numpy_activation(model, elements, num_rules) -> A [R, M] of a model without members axis, by hand."""

    def accumulate(model, elements, num_rules):
        rules = np.concatenate([features["rule"].ravel() for features, _ in elements])
        batches = [model(features)["activation"].numpy() for features, _ in elements]
        p = np.concatenate([a.reshape(-1, a.shape[-1]) for a in batches]).astype(np.float64)
        return np.stack([p[rules == rule].mean(0) for rule in range(num_rules)])

    return accumulate
