"""A batch is a function of (task, split, seed, step), and of nothing else."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from modtf.datasets.streaming import task_family


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
    tasks, seeds = [replace(any_family, data_seed=d) for d in (0, 1, 0)], [0, 7, 7]
    options = {"batch_size": 40, "split": split, "start_step": 3}
    alone = draw(tasks[1], 2, seed=7, **options)
    for one, three in zip(alone, draw(tasks, 2, seed=seeds, **options), strict=True):
        assert_same(one, [array[:, 1] for array in three])


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
    family = task_family(replace(any_family, data_seed=data_seed))
    first = next(iter(family.stacked.values()))[0].ravel()[:2]
    unit = np.sqrt(32) if any_family.arch == "rnn" else 1.0
    np.testing.assert_allclose(first * unit, ALPHA[data_seed], atol=1e-8)


# A change here changes every published number: never without a new version of the data.
DIGESTS = {
    "mlp_regression_r5_task1": "7fa6aa6cf1727175",
    "mlp_classification_r5_task1": "75a7fc9256bf9d54",
    "mha_v1_regression_r5_task1": "636db22b4ac84885",
    "mha_v1_classification_r5_task1": "9c5a48ef110e1b33",
    "mha_v2_regression_r5_task1": "cbf689fc0cce8d16",
    "mha_v2_classification_r5_task1": "b27f613a239b278c",
    "rnn_regression_r5_task1": "bdf4b576ab7ad781",
    "rnn_regression_state_r5_task1": "7cfcd3d887ef47a6",
    "rnn_classification_r5_task1": "d604f9a8526c1f47",
}


def test_pinned_bytes(draw, any_task):
    digest = hashlib.sha256()
    for batch in draw(any_task, 2, split="test", batch_size=8):
        for array in batch:
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    assert any_task.name in DIGESTS, "a new kind of task: pin its first bytes"
    assert DIGESTS[any_task.name] == digest.hexdigest()[:16]
