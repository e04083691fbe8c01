"""What a stage of training is made of: its batches, who judges it, and a module in a frozen network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from modtf.datasets.streaming import stream
from modtf.families.base_images import DATASETS
from modtf.families.orders import RULES
from modtf.training.trainer import TrainerContext

ALL = tuple(range(len(RULES)))
PASS_THROUGH = ("both", "corrupted")


@dataclass(frozen=True)
class Views:
    """Batches of images, each in some views.

    Args:
        context: whose task.
        rules: of the views; None for a single one, drawn for every image.
        noise: "fresh" draws impulse noise anew in every epoch.
        moved: how images of colour are cropped and mirrored.
        losses: the outputs of which the class is the target.
    """

    context: TrainerContext
    rules: Sequence[int] | None
    noise: str
    moved: str
    losses: Mapping[str, Any]

    @property
    def batch_size(self) -> int:
        """As many views in a batch, whatever their number."""
        return max(1, self.context.training.batch_size // len(self.rules or ALL[:1]))

    @property
    def per_epoch(self) -> int:
        of = DATASETS[self.context.task.dataset]
        return max(1, of.classes * of.sizes[0] // self.batch_size)

    def steps(self, epochs: float) -> int:
        return max(1, round(epochs * self.per_epoch))

    def train(self, step: int) -> tf.data.Dataset:
        """From a step on."""
        return self._stream("train", step)

    def validation(self) -> tf.data.Dataset:
        """As many batches as the final evaluation reads, or as there are."""
        task, sizes = self.context.task, self.context.sizes
        of = DATASETS[task.dataset]
        most = min(of.classes * of.sizes[1], sizes.batches * sizes.batch_size)
        return self._stream("validation", 0).take(max(1, most // self.batch_size)).cache()

    def _stream(self, split: str, step: int) -> tf.data.Dataset:
        coloured = DATASETS[self.context.task.dataset].coloured
        moved = self.moved if coloured and (split == "train" or self.moved == "all") else "no"
        options: dict[str, Any] = {"fresh": self.noise == "fresh" and split == "train", "moved": moved}
        options |= {} if self.rules is None else {"views": np.array(self.rules, np.int32)}
        made = stream(
            self.context.population, self.batch_size, split,
            seq_len=len(self.rules) if self.rules else None, options=options, start_step=step,
        )  # fmt: skip
        return made.map(lambda features, target: (features, dict.fromkeys(self.losses, target)))


class Judge:
    """The total loss of a model on its validation set; remembers the accuracy, in %."""

    def __init__(self, model: keras.Model, views: Views):
        self._batches, self.accuracy = views.validation(), 0.0

        @tf.function(autograph=False)
        def step(features: Any, target: Any) -> Any:
            outputs = model(features, training=False)
            loss = sum(loss(target[name], outputs[name]) for name, loss in views.losses.items())
            right = ops.argmax(outputs["target"], axis=-1) == ops.cast(target["target"], "int32")
            return loss, ops.mean(ops.cast(right, "float32"))

        self._step = step

    def __call__(self) -> float:
        found = [[float(value) for value in self._step(*batch)] for batch in self._batches]
        loss, accuracy = np.mean(found, axis=0)
        self.accuracy = 100.0 * accuracy
        return loss


class ModulePhase(keras.Model):
    """A frozen network, in inference mode, and a module at one of its sites.

    Args:
        network: of whose parts.
        site: where.
        module: what is trained.
        pass_through: "both" views through it, or the "corrupted" one, the first, alone.
    """

    compiled_by_xla = False

    def __init__(self, network: Any, site: int, module: Any, pass_through: str):
        super().__init__(name=module.name)
        self.network, self.module = network, module
        self.site, self.both = site, pass_through == PASS_THROUGH[0]
        self.built = True

    def call(self, features, training=None):
        """Of pairs (corrupted, clean); "views" are what the module makes of the first, and the second."""
        network, images = self.network, features["inputs"]
        x = ops.cast(ops.reshape(images, [-1, *images.shape[2:]]), network.compute_dtype)
        before = network.through(network.normalised(x), 0, self.site, training=False)
        after = self.module(before, training=training)
        pairs = [ops.reshape(h, [-1, 2, *h.shape[1:]]) for h in (before, after)]
        views = ops.stack([pairs[1][:, 0], pairs[0][:, 1]], axis=1)
        seen = pairs[1] if self.both else views
        logits = network.through(ops.reshape(seen, [-1, *before.shape[1:]]), self.site, training=False)
        width = int(np.prod(before.shape[1:]))
        return {
            "target": ops.reshape(logits, [-1, 2, logits.shape[-1]]),
            "views": ops.reshape(views, [-1, 2, width]),
        }
