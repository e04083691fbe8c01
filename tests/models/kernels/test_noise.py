"""Noise as a function of member, step, row and token."""

import numpy as np
import pytest
import tensorflow as tf

from modtf import Population, Task
from modtf.models.initial import InitialWeights, noise_keys
from modtf.models.kernels.noise import threefry, uniform_noise

ONES = 0xFFFFFFFF


def words(*values):
    return [tf.constant(value, tf.uint32) for value in values]


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(key, counter, expected):
    """The vectors of Threefry's authors."""
    assert tuple(int(word) for word in threefry(words(*key), words(*counter))) == expected


def test_uniform_numbers():
    keys, steps = np.array([[1, 2], [3, 4]], np.int32), np.array([5, 5], np.int32)
    found = np.asarray(uniform_noise(keys, steps, 4, np.arange(5000, dtype=np.int32)))
    assert found.shape == (2, 4, 5000)
    assert 0 < found.min() < 0.001
    assert 0.999 < found.max() < 1
    assert abs(found.mean() - 0.5) < 0.01
    assert abs(found.std() - 12**-0.5) < 0.01
    assert np.abs(np.corrcoef(found.reshape([8, -1])) - np.eye(8)).max() < 0.06
    part = uniform_noise(keys[1:], steps[1:], 3, np.arange(7, 70, dtype=np.int32))
    np.testing.assert_array_equal(part, found[1:, :3, 7:70])
    later = np.asarray(uniform_noise(keys, steps + 1, 4, np.arange(5000, dtype=np.int32)))
    assert np.mean(later == found) < 0.001


def test_a_members_key_does_not_depend_on_its_company():
    tasks, seeds = [Task(data_seed=i) for i in (0, 0, 1)], [0, 1, 0]
    together = noise_keys(InitialWeights(Population.of(tasks, seeds)))
    assert together.shape == (3, 2)
    assert together.min() >= 0
    assert len({tuple(key) for key in together}) == 3
    alone = noise_keys(InitialWeights(Population.of(tasks[2], 0)))
    np.testing.assert_array_equal(together[2:], alone)
