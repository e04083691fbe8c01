"""Losses and errors per setting, with the members axis kept where one is needed."""

import keras
from keras import ops


def absolute_error(target, output):
    """|target - output|, elementwise."""
    return ops.abs(ops.cast(target, output.dtype) - output)


def cross_entropy(target, logit):
    """Binary cross-entropy of a logit, elementwise, in nats."""
    return ops.relu(logit) - logit * ops.cast(target, logit.dtype) + ops.softplus(-ops.abs(logit))


def misclassified(target, logit):
    """1 where the sign of the logit is wrong, else 0, elementwise."""
    return ops.cast((logit >= 0) != (target >= 0.5), logit.dtype)


ELEMENTWISE = {"regression": absolute_error, "classification": cross_entropy}


@keras.saving.register_keras_serializable("modtf")
class SettingLoss(keras.losses.Loss):
    """L1 for regression, binary cross-entropy on the logit for classification, averaged over everything.

    A population's loss is therefore the mean over its members; `MemberAdam` undoes the division.

    Args:
        setting: "regression" or "classification".
    """

    def __init__(self, setting: str, name: str = "loss", **kwargs):
        super().__init__(name=name, **kwargs)
        self.setting = setting

    def call(self, y_true, y_pred):
        return ELEMENTWISE[self.setting](y_true, y_pred)

    def get_config(self):
        return {**super().get_config(), "setting": self.setting}
