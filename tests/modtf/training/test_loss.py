"""Losses and errors against NumPy."""

import keras
import numpy as np
import pytest

from modtf.training.loss import ELEMENTWISE, SettingLoss, absolute_error, cross_entropy, misclassified
from modtf.task import SETTINGS


def test_absolute_error():
    np.testing.assert_array_equal(absolute_error(np.array([1.0, -2.0]), np.array([3.0, -2.5])), [2.0, 0.5])


def test_cross_entropy():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0]), np.array([-0.7, 2.0, 3.0, -0.1])
    p = 1 / (1 + np.exp(-logit))
    expected = -(label * np.log(p) + (1 - label) * np.log(1 - p))
    np.testing.assert_allclose(cross_entropy(label, logit), expected, rtol=1e-12)


def test_cross_entropy_of_large_logits_is_finite():
    found = cross_entropy(np.array([0.0, 1.0, 1.0]), np.array([1e4, 1e4, -1e4]))
    np.testing.assert_allclose(found, [1e4, 0.0, 1e4])


def test_misclassified():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0, -1.0, 0.0])
    np.testing.assert_array_equal(misclassified(label, logit), [0, 0, 1, 1, 0])  # y >= 0 is label 1


@pytest.mark.parametrize("setting", SETTINGS)
def test_setting_loss(setting):
    rng = np.random.default_rng(0)
    target, output = (rng.random([4, 2, 3]) > 0.5) * 1.0, rng.standard_normal([4, 2, 3])
    loss = SettingLoss(setting, dtype="float64")
    expected = np.mean(ELEMENTWISE[setting](target, output))
    np.testing.assert_allclose(loss(target, output), expected, rtol=1e-12)
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(copy, SettingLoss)
    assert copy.setting == setting


def test_every_setting_has_a_loss():
    assert tuple(ELEMENTWISE) == SETTINGS
