"""The loss against NumPy, and saved."""

import keras
import numpy as np
import pytest

from modtf.evaluation.elementwise import ELEMENTWISE
from modtf.training.loss import SettingLoss


@pytest.mark.parametrize("setting", ELEMENTWISE)
def test_it_is_the_mean_over_everything(setting):
    rng = np.random.default_rng(0)
    target, output = (rng.random([4, 2, 3]) > 0.5) * 1.0, rng.standard_normal([4, 2, 3])
    loss = SettingLoss(setting, dtype="float64")
    expected = np.mean(ELEMENTWISE[setting](target, output))
    np.testing.assert_allclose(loss(target, output), expected, rtol=1e-12)


@pytest.mark.parametrize("setting", ELEMENTWISE)
def test_config_round_trip(setting):
    copy = keras.losses.deserialize(keras.losses.serialize(SettingLoss(setting)))
    assert isinstance(copy, SettingLoss)
    assert copy.setting == setting
