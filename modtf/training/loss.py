"""The loss that training minimises."""

from typing import Any

import keras

from modtf.evaluation.elementwise import loss_of


@keras.saving.register_keras_serializable("modtf")
class SettingLoss(keras.losses.Loss):
    """The loss of a setting, such as L1 for regression, averaged over everything.

    A population's loss is therefore the mean over its members; `MemberAdam` undoes the division.

    Args:
        setting: a name of `modtf.settings.SETTINGS`.
    """

    def __init__(self, setting: str, name: str = "loss", **kwargs):
        super().__init__(name=name, **kwargs)
        self.setting = setting
        #: of the model that was compiled with it, see `compile_model`
        self.compilation: Any = None

    def call(self, y_true, y_pred):
        return loss_of(self.setting)(y_true, y_pred)

    def get_config(self):
        return {**super().get_config(), "setting": self.setting}
