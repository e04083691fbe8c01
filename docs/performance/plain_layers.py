"""The network of the digit questions without routing, in plain Keras layers, to compare costs.

python benchmarks/bench.py --arch=vqa_mnist --rules=21 --width=16 --variant=all_all_all \
    --baseline=docs/performance/plain_layers.py:plain
"""

import keras
import tensorflow as tf
from keras import layers, ops

from modtf.datasets.streaming import stream
from modtf.experiments.questions.library import CONVOLUTIONS, HIDDEN, LAST
from modtf.experiments.questions.question import ENCODER, QUESTIONS, Question
from modtf.models.base import ModularModel


class PlainVQA(keras.Model):
    """Encoder, Find and classifier of Keras's own layers, one of each for all.

    Args:
        width: e.
        num_rules: of scales.
        question: what is asked.
    """

    def __init__(self, width: int, num_rules: int, question: Question):
        super().__init__()
        self.leaves, self.sharing = len(question.calls_at(ENCODER)), question.sharing
        wide = {"padding": "same", "activation": "relu"}
        self.encoder = [layers.Conv2D(width, 3, **wide) for _ in range(CONVOLUTIONS)]
        self.pool = layers.MaxPooling2D()
        self.scales = layers.Embedding(num_rules, width, "random_normal")
        self.find = layers.Conv2D(width, 3, **wide)
        self.leaf = layers.Dense(width, "relu")
        self.root = layers.Dense(width, "relu") if question.roots else None
        self.first, self.second = layers.Dense(HIDDEN * width, "relu"), layers.Dense(LAST * width, "relu")
        self.largest, self.last = layers.GlobalMaxPooling2D(), layers.Dense(2)

    def call(self, features):
        x, rule = features["inputs"], features["rule"]
        x = ops.reshape(x, [-1, *x.shape[-3:]])  # images are examples
        for number, layer in enumerate(self.encoder):
            x = layer(x)
            if number in (1, 3):
                x = self.pool(x)
        x = ops.repeat(x, self.sharing, axis=0)
        x = self._found(self.leaf(x), ops.reshape(rule[:, : self.leaves], [-1]))
        if self.root is not None:
            x = ops.reshape(x, [-1, 2, *x.shape[1:]])
            x = self._found(self.root(ops.concatenate([x[:, 0], x[:, 1]], axis=-1)), rule[:, 2])
        return self.last(self.second(self.largest(self.first(x))))

    def _found(self, x, rule):
        return self.find(x * self.scales(rule)[:, None, None])


def plain(model: ModularModel, batch_size: int) -> tuple[keras.Model, tf.data.Dataset] | None:
    """Plain layers beside a model of modtf; None where there are none."""
    task = model.population.task
    if task.family.architecture != "vqa":
        return None
    network = PlainVQA(model.width, model.num_rules, QUESTIONS[task.question])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.Adam(1e-4), loss, jit_compile=False)
    return network, stream(model.population, batch_size, "train")
