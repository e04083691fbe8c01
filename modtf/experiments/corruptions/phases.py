"""The batches and the validation of every training stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from modtf.datasets import host_ops
from modtf.datasets.plan import StreamPlan
from modtf.datasets.streaming import pipeline
from modtf.evaluation.programs import pipelines_of
from modtf.experiments.corruptions.base_images import DATASETS
from modtf.experiments.corruptions.orders import RULES
from modtf.training.trainer import TrainerContext

ALL = tuple(range(len(RULES)))  # without those that a derived family adds
Batches = Sequence[tuple[Any, Any]]


def rules_of(context: TrainerContext) -> tuple[int, ...]:
    """Return the rules of the family, with those that a derived family adds."""
    return tuple(range(context.task.num_rules))


@dataclass(frozen=True)
class Views:
    """Batches of images, each in some views.

    Views of as many other rules share a pipeline, and so do the variants of a population.

    Args:
        context: the trained model and its task.
        rules: of the views; None for a single view with a random rule for every image.
        noise: "fresh" draws impulse noise anew in every epoch.
        moved: how colour images are cropped and mirrored.
    """

    context: TrainerContext
    rules: Sequence[int] | None
    noise: str
    moved: str

    def of(self, *rules: int) -> "Views":
        """Return the views of as many other rules."""
        return replace(self, rules=rules)

    @property
    def batch_size(self) -> int:
        """The images in a batch: the number of views stays the same for any number of views per image."""
        return max(1, self.context.training.batch_size // len(self.rules or ALL[:1]))

    @property
    def per_epoch(self) -> int:
        of = DATASETS[self.context.task.dataset]
        return max(1, of.classes * of.sizes[0] // self.batch_size)

    def steps(self, epochs: float) -> int:
        return max(1, round(epochs * self.per_epoch))

    def train(self, outputs: Sequence[str]) -> Callable[[int], tf.data.Dataset]:
        """Return a function from a first step to the batches from there on, each output with a target."""

        def starting_at(step: int) -> tf.data.Dataset:
            made = self._stream("train", step)
            return made.map(lambda features, target: (features, dict.fromkeys(outputs, target)))

        return starting_at

    def validation(self) -> Batches:
        """Return as many batches as the final evaluation reads, or all if there are fewer."""
        task, sizes = self.context.task, self.context.sizes
        of = DATASETS[task.dataset]
        most = min(of.classes * of.sizes[1], sizes.batches * sizes.batch_size)
        return list(self._stream("validation", 0).take(max(1, most // self.batch_size)))

    def _stream(self, split: str, step: int) -> tf.data.Dataset:
        coloured, training = DATASETS[self.context.task.dataset].coloured, split == "train"
        moved = self.moved if coloured and (training or self.moved == "all") else "no"
        options = {"fresh": self.noise == "fresh" and training, "moved": moved}
        number = len(self.rules) if self.rules else None
        population, size = self.context.population, self.batch_size
        starting_at = pipelines_of(population).get_or_make(
            (split, size, number, *options.values()),
            lambda: pipeline(
                StreamPlan.of(population, host_ops, size, split, seq_len=number, options=options)
            ),
        )
        views = {} if self.rules is None else {"views": tf.constant(self.rules, tf.int32)}
        return starting_at(step, views)


class Judge:
    """Losses and accuracies of a model on validation batches, for each group of outputs.

    Args:
        model: returns all these outputs.
        groups: losses by output; the first output of a group holds its logits, if there are any.
        batches: may be replaced by others of the same shapes.

    Attributes:
        losses, accuracies: the latest values of each group; accuracies in %, NaN without logits.
    """

    def __init__(self, model: keras.Model, groups: Sequence[Mapping[str, Any]], batches: Batches):
        self.model, self.batches = model, batches
        self.losses = self.accuracies = np.full(len(groups), np.nan)

        @tf.function(autograph=False)
        def step(features: Any, target: Any) -> Any:
            outputs = model(features, training=False)
            found = []
            for losses in groups:
                first = next(iter(losses))
                right = ops.argmax(outputs[first], axis=-1) == ops.cast(target, "int32")
                accuracy = 100.0 * ops.mean(ops.cast(right, "float32")) if "target" in first else np.nan
                loss = sum(loss(target, outputs[name]) for name, loss in losses.items())
                found.append((loss, accuracy))
            return found

        self._step = step

    def __call__(self) -> float:
        """Return the first group's loss."""
        losses = np.mean([self._step(*batch) for batch in self.batches], axis=0)
        self.losses, self.accuracies = losses[:, 0], losses[:, 1]
        return float(self.losses[0])
