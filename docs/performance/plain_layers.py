"""What routing costs the network of the digit questions: the same layers without it, by Keras.

modtf bench --arch=vqa_mnist --variant=all_all_all --plugin=docs/performance/plain_layers.py
"""

import keras
import tensorflow as tf
from keras import layers

from modtf.datasets.streaming import stream
from modtf.launch.benchmark.timing import BASELINES, BATCH_SIZE
from modtf.models.architectures.vqa_library import CONVOLUTIONS, HIDDEN, LAST
from modtf.models.base import ModularModel


class PlainVQA(keras.Model):
    """Encoder, Find and classifier of Keras's own layers, one of each for all; for questions of one call.

    Args:
        width: e.
        num_rules: of scales.
    """

    def __init__(self, width: int, num_rules: int):
        super().__init__()
        wide = {"padding": "same", "activation": "relu"}
        self.encoder = [layers.Conv2D(width, 3, **wide) for _ in range(CONVOLUTIONS)]
        self.pool = layers.MaxPooling2D()
        self.scales = layers.Embedding(num_rules, width, "random_normal")
        self.projection, self.find = layers.Dense(width, "relu"), layers.Conv2D(width, 3, **wide)
        self.first, self.second = layers.Dense(HIDDEN * width, "relu"), layers.Dense(LAST * width, "relu")
        self.largest, self.last = layers.GlobalMaxPooling2D(), layers.Dense(2)

    def call(self, features):
        x = features["inputs"]
        for number, layer in enumerate(self.encoder):
            x = layer(x)
            if number in (1, 3):
                x = self.pool(x)
        scale = self.scales(features["rule"][:, 0])
        x = self.find(self.projection(x) * scale[:, None, None])
        return self.last(self.second(self.largest(self.first(x))))


@BASELINES.register("plain")
def plain(model: ModularModel) -> tuple[keras.Model, tf.data.Dataset] | None:
    """Plain layers beside a model of modtf; None where there are none."""
    task = model.population.task
    if task.family.architecture != "vqa" or task.family.num_tokens(task) > 1:
        return None
    network = PlainVQA(model.width, model.num_rules)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.Adam(1e-4), loss, jit_compile=False)
    return network, stream(model.population, BATCH_SIZE, "train")
