"""A separate auto-encoder for every corruption, and a classifier of the images that they restore."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.experiments.corruptions import STAGE_RATES
from modtf.experiments.corruptions.conditions import CORRUPTIONS
from modtf.experiments.corruptions.modules import ALL, ModulePhase, ModuleStages, Views, normalised
from modtf.experiments.corruptions.trainers import (
    CLASSIFIERS,
    check_trainer_options,
    epochs_of_images,
    train_stage,
)
from modtf.training.compile import SettingLoss
from modtf.training.trainer import TrainerContext, checked_by


class Reconstruction(keras.losses.Loss):
    """The mean squared difference of restored and clean images [B, 2, F]; it ignores classes."""

    def call(self, y_true, y_pred):
        return ops.mean(ops.square(y_pred[:, 0] - y_pred[:, 1]))


class AutoEncoderPhase(ModulePhase):
    """An auto-encoder, which restores the first image of each pair; the second one is clean."""

    @staticmethod
    def outputs(site: int) -> tuple[str, ...]:
        return ("images",)

    def call(self, features, training=None):
        x = normalised(self.network, features)
        pairs = ops.reshape(x, [-1, 2, *x.shape[1:]])
        restored = self.modules[0](pairs[:, 0], training=training)
        images = ops.stack([restored, pairs[:, 1]], axis=1)
        return {"images": ops.reshape(images, [-1, 2, int(np.prod(x.shape[1:]))])}


class JointPhase(keras.Model):
    """A classifier of images in all views, each restored by the frozen auto-encoder of its corruption."""

    compiled_by_xla = False

    def __init__(self, network: Any, autoencoders: Sequence[Any]):
        super().__init__(name="joint")
        self.network, self.autoencoders = network, list(autoencoders)
        for one in self.autoencoders:
            one.trainable = False
        self.built = True

    def call(self, features, training=None):
        x, views = normalised(self.network, features), len(ALL)
        x = ops.reshape(x, [-1, views, *x.shape[1:]])
        restored = [one(x[:, rule], training=False) for rule, one in enumerate(self.autoencoders, 1)]
        x = ops.reshape(ops.stack([x[:, 0], *restored], axis=1), [-1, *x.shape[2:]])
        logits = self.network.through(x, 0, training=training)
        return {"target": ops.reshape(logits, [-1, views, logits.shape[-1]])}


@checked_by(check_trainer_options)
def image_space(
    context: TrainerContext,
    classifier: str = CLASSIFIERS[0],
    autoencoder_rate: float = STAGE_RATES["image_space"][1],
    noise: str = "fresh",
) -> None:
    """Train for every corruption an auto-encoder that maps its images to clean ones, then a classifier.

    Images under several corruptions pass the auto-encoders one after the other, in the order in which the
    corruptions were applied, as in the released code.

    Args:
        context: the model to train; the protocol's learning rate applies to the classifier.
        classifier: of clean images, "identity", or of all views after their auto-encoders, "joint".
        autoencoder_rate: learning rate of the auto-encoders.
        noise: see `modtf.experiments.corruptions.trainers.erm`.
    """
    network, epochs = context.model, epochs_of_images(context)
    phase = partial(AutoEncoderPhase, losses=lambda: [Reconstruction()])
    stages = ModuleStages(context, Views(context, (1, 0), noise, "all"), phase, "autoencoders")
    training = replace(context.training, learning_rate=autoencoder_rate)
    made = {name: stages.train(rule, 0, epochs, training) for rule, name in enumerate(CORRUPTIONS, 1)}
    joint = classifier == CLASSIFIERS[1]
    views = Views(context, ALL if joint else ALL[:1], noise, "all")
    losses = {"target": SettingLoss("categorical")}
    model = JointPhase(network, list(made.values())) if joint else network
    train_stage(context, classifier, model, views, losses, views.steps(epochs), measured=False)
    for name, module in made.items():
        module.trainable = True  # so that results count its parameters
        network.attach(name, 0, module)
    context.measure()
