"""What TensorBoard shows of a cell, while it trains and after."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from modtf.metrics import best_permutation, module_use

PIXELS = 24  # of an image's cell
SHOWN_MEMBERS = 5
PERFORMANCE = ("loss", "error")


class TensorBoardWriter(keras.callbacks.Callback):
    """Writes scalars, activation matrices and module use; a listener of `EvaluateCallback`.

    Every cell uses the same tags in a folder of its own, so that variants overlay in one chart. Values
    are means over members.

    Args:
        folder: where the event files go.
        settings: what HParams compares cells by.
        num_members: P, for the speed in members x steps per second.
        steps_per_epoch: training steps between evaluations.
    """

    def __init__(
        self, folder: str | Path, settings: Mapping[str, Any], num_members: int, steps_per_epoch: int
    ):
        super().__init__()
        self.writer = tf.summary.create_file_writer(str(folder))
        self.num_members, self.steps_per_epoch = num_members, steps_per_epoch
        with self.writer.as_default():
            hparams.hparams(dict(settings), trial_id=Path(folder).parent.name)

    def __call__(self, step: int, record: Mapping[str, np.ndarray], activation: np.ndarray) -> None:
        """One evaluation: record of measure -> values [P], activation [P, R, M]."""
        with self.writer.as_default(step):
            for measure, values in record.items():
                if np.isfinite(values).all():
                    group = "performance/validation_" if measure in PERFORMANCE else "measures/"
                    tf.summary.scalar(group + measure, np.mean(values))
            tf.summary.image("activation/rules_by_modules", heat_maps(activation), max_outputs=SHOWN_MEMBERS)
            tf.summary.histogram("activation/module_use", [module_use(matrix) for matrix in activation])

    def speed(self, step: int, seconds: float) -> None:
        """Training speed since the last evaluation."""
        rate = self.steps_per_epoch / seconds
        with self.writer.as_default(step):
            tf.summary.scalar("speed/steps_per_second", rate)
            tf.summary.scalar("speed/members_times_steps_per_second", rate * self.num_members)

    def on_epoch_end(self, epoch, logs=None):
        with self.writer.as_default((epoch + 1) * self.steps_per_epoch):
            tf.summary.scalar("performance/training_loss", (logs or {})["loss"])

    def final(self, step: int, scores: Mapping[str, float]) -> None:
        """The final evaluation on the test stream, which HParams shows beside the settings."""
        with self.writer.as_default(step):
            for name, value in scores.items():
                if np.isfinite(value):
                    tf.summary.scalar(f"test/{name}", value)
        self.writer.flush()


def heat_maps(activation: np.ndarray) -> np.ndarray:
    """Activation matrices [P, R, M] -> images [P, height, width, 3], modules matched to rules."""
    import matplotlib

    colours = matplotlib.colormaps["viridis"]
    images = []
    for matrix in activation[:SHOWN_MEMBERS]:
        ordered = matrix[:, best_permutation(matrix)] if matrix.shape[1] > 1 else matrix
        images.append(colours(np.kron(ordered, np.ones((PIXELS, PIXELS))))[..., :3])
    return np.stack(images).astype(np.float32)
