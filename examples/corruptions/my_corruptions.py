"""A method, a network and a corruption: `modtf run --plugin=my_corruptions.py --arch=solarised`."""

from dataclasses import replace

import keras
import numpy as np
from keras import layers

import modtf
from modtf.experiments.corruptions.conditions import RULES, padded
from modtf.experiments.corruptions.data import Corruptions
from modtf.experiments.corruptions.family import CorruptionsFamily
from modtf.models import ModularModel
from modtf.tasks.family import Variant

SO = len(RULES)  # the index of the new corruption


class Solarised(Corruptions):
    """The corruption of images [G, H, W, C] in 0..255, in tf.data."""

    more = (lambda ops, x: ops.where(x < 128.0, x, 255.0 - x),)


def curriculum(context, share=0.3):
    """Train on clean images first, for a share of the steps; `--set trainer.share=0.5`."""
    steps = max(1, round(share * context.training.steps))

    def clean(step):
        size, options = context.training.batch_size, {"views": np.zeros(1, np.int32)}
        return modtf.stream(context.population, size, options=options, start_step=step)

    context.fit("clean", context.model, clean, steps, training=replace(context.training, schedule=None))
    context.fit("all", context.model, None, context.training.steps)


@modtf.register_family("solarised")
class SolarisedFamily(CorruptionsFamily):
    title, data, rules = "Corruptions and solarisation", Solarised, (*RULES, "SO")
    conditions = (
        *CorruptionsFamily.conditions,
        modtf.Condition("so", "SO", True, options={"order": np.array([SO, 0, 0, 0, 0, 0], np.int32)}),
        modtf.Condition(
            "gb_so", "GB + SO", options={"order": np.array([*padded(["GB"])[:1], SO, 0, 0, 0, 0], np.int32)}
        ),
    )
    variants = (
        *CorruptionsFamily.variants,
        Variant("curriculum", "clean first", router="monolithic", trainer=curriculum),
    )


@modtf.register_architecture("shallow")
class Shallow(ModularModel):
    """The network. Invariance is measured on the layer that Keras calls `features`."""

    has_members_axis, compiled_by_xla = False, False

    def make_layers(self):
        self.body = keras.Sequential(
            [
                layers.Conv2D(self.width, 5, 2, activation="relu"),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
            ]
        )
        self.last = layers.Dense(self.population.family.num_classes(self.population.task))

    def forward(self, inputs, rule):
        views = keras.ops.reshape(inputs, [-1, *inputs.shape[2:]]) / 127.5 - 1.0
        h = self.body(views)
        outputs = {"features": h, "target": self.last(h)}
        return {name: keras.ops.reshape(x, [-1, rule.shape[1], x.shape[-1]]) for name, x in outputs.items()}
