"""The loss against NumPy, and saved."""

import keras
import numpy as np
import pytest

from modtf.evaluation.elementwise import loss_of
from modtf.settings import SETTINGS
from modtf.training.loss import SettingLoss


@pytest.mark.parametrize("setting", SETTINGS)
def test_loss_is_the_mean_over_everything_and_is_saved_by_name(setting):
    rng = np.random.default_rng(0)
    target, output = (rng.random((4, 3)) < 0.5).astype(np.float32), rng.normal(size=(4, 3, 2))
    output = output if setting == "categorical" else output[..., 0]
    loss = SettingLoss(setting, dtype="float64")
    assert float(loss(target, output)) == pytest.approx(np.mean(loss_of(setting)(target, output)))
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(copy, SettingLoss)
    assert copy.setting == setting
