"""The TensorBoard logs of a cell, during training and after."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from modtf.evaluation.scores import MEASURES_OF_PERFORMANCE, row_name
from modtf.metrics import best_permutation, module_use
from modtf.tasks.observed import at_place
from modtf.training.callbacks.evaluate import EvaluateCallback

PIXELS = 24  # per entry of a matrix image
SHOWN_MEMBERS = 5


class TensorBoardWriter(keras.callbacks.Callback):
    """Writes scalars, activation matrices and module use after every evaluation.

    Every cell uses the same tags in its own folder, so that variants overlay in one chart. Values are means
    over members. HParams compares cells by `settings`, and takes the mean over logs of one `trial`.
    `evaluation` must precede this callback.
    """

    def __init__(
        self, folder: str | Path, trial: str, settings: Mapping[str, Any], evaluation: EvaluateCallback
    ):
        super().__init__()
        self.evaluation = evaluation
        population = evaluation.evaluator.population
        self.num_members, self.rule_probs = len(population), population.family.rule_probs(population.task)
        self.writer = tf.summary.create_file_writer(str(folder))
        with self.writer.as_default():
            hparams.hparams(dict(settings), trial_id=trial)

    def on_train_begin(self, logs=None):
        if len(self.evaluation.steps) == 1:
            self._write_evaluation()

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.evaluation.every:
            return
        self._write_evaluation()
        rate = self.params["steps"] / self.evaluation.seconds[-1]
        with self.writer.as_default(self.evaluation.steps[-1]):
            tf.summary.scalar("performance/training_loss", (logs or {})["loss"])
            tf.summary.scalar("speed/steps_per_second", rate)
            tf.summary.scalar("speed/members_times_steps_per_second", rate * self.num_members)

    def final(self, step: int, scores: Mapping[str, float]) -> None:
        """Write the final evaluation on the test stream, which HParams shows next to the settings."""
        with self.writer.as_default(step):
            for name, value in scores.items():
                if np.isfinite(value):
                    tf.summary.scalar(f"test/{name}", value)
        self.writer.flush()

    def _write_evaluation(self) -> None:
        scores = self.evaluation.found[-1]
        with self.writer.as_default(self.evaluation.steps[-1]):
            for (measure, *where), values in scores.rows.items():
                if np.isfinite(values).all():
                    tf.summary.scalar(self._group(measure) + row_name(measure, *where), np.mean(values))
            for place, activation in scores.activation.items():
                probs = None if place else self.rule_probs
                maps = heat_maps(activation, probs)
                name = f"activation/{at_place('rules_by_modules', place)}"
                tf.summary.image(name, maps, max_outputs=SHOWN_MEMBERS)
                # diverged members have no module use
                use = [module_use(matrix, probs) for matrix in activation if np.isfinite(matrix).all()]
                tf.summary.histogram(f"activation/{at_place('module_use', place)}", use)

    def _group(self, measure: str) -> str:
        if measure in MEASURES_OF_PERFORMANCE:
            return "performance/validation_"
        return "penalty/" if measure in self.evaluation.evaluator.penalties.values() else "measures/"


def heat_maps(activation: np.ndarray, rule_probs: Sequence[float] | None = None) -> np.ndarray:
    """Return activation matrices [P, R, M] as images [P, height, width, 3], with modules matched to rules of
    these frequencies."""
    import matplotlib

    colours = matplotlib.colormaps["viridis"]
    images = []
    for matrix in activation[:SHOWN_MEMBERS]:
        matched = matrix.shape[1] > 1 and np.isfinite(matrix).all()
        ordered = matrix[:, best_permutation(matrix, rule_probs)] if matched else matrix
        images.append(colours(np.kron(ordered, np.ones((PIXELS, PIXELS))))[..., :3])
    return np.stack(images).astype(np.float32)
