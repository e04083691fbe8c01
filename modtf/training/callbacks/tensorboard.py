"""The TensorBoard logs of a cell, during training and after; written without TensorFlow."""

import io
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tensorboard.compat.proto import event_pb2, types_pb2
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from modtf.evaluation.scores import MEASURES_OF_PERFORMANCE, row_name
from modtf.metrics import best_permutation, module_use
from modtf.tasks.observed import at_place
from modtf.training.callbacks.evaluate import EvaluateCallback

PIXELS = 24  # per entry of a matrix image
SHOWN_MEMBERS = 5


class EventFile:
    """A file of events that TensorBoard reads, complete after every `write`."""

    def __init__(self, folder: str | Path):
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._path = Path(folder, name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._append(file_version="brain.Event:2")

    def write(self, step: int, summaries: Sequence[Summary]) -> None:
        """Append summaries of a step."""
        values = [value for summary in summaries for value in summary.value]
        self._append(summary=Summary(value=values), step=step)

    def _append(self, **content: Any) -> None:
        with self._path.open("ab") as file:
            RecordWriter(file).write(event_pb2.Event(wall_time=time.time(), **content).SerializeToString())


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
        self.file = EventFile(folder)
        self.file.write(0, [hparams_pb(dict(settings), trial_id=trial)])

    def on_train_begin(self, logs=None):
        if len(self.evaluation.steps) == 1:
            self._write_evaluation()

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.evaluation.every:
            return
        rate = self.params["steps"] / self.evaluation.seconds[-1]
        self._write_evaluation(
            scalar_pb("performance/training_loss", (logs or {})["loss"]),
            scalar_pb("speed/steps_per_second", rate),
            scalar_pb("speed/members_times_steps_per_second", rate * self.num_members),
        )

    def final(self, step: int, scores: Mapping[str, float]) -> None:
        """Write the final evaluation on the test stream, which HParams shows next to the settings."""
        finite = {name: value for name, value in scores.items() if np.isfinite(value)}
        self.file.write(step, [scalar_pb(f"test/{name}", value) for name, value in finite.items()])

    def _write_evaluation(self, *more: Summary) -> None:
        scores, summaries = self.evaluation.found[-1], [*more]
        for (measure, *where), values in scores.rows.items():
            if np.isfinite(values).all():
                name = self._group(measure) + row_name(measure, *where)
                summaries.append(scalar_pb(name, np.mean(values)))
        for place, activation in scores.activation.items():
            probs = None if place else self.rule_probs
            name = f"activation/{at_place('rules_by_modules', place)}"
            summaries.append(_image_pb(name, heat_maps(activation, probs)))
            # diverged members have no module use
            use = [module_use(matrix, probs) for matrix in activation if np.isfinite(matrix).all()]
            summaries.append(histogram_pb(f"activation/{at_place('module_use', place)}", use))
        self.file.write(self.evaluation.steps[-1], summaries)

    def _group(self, measure: str) -> str:
        if measure in MEASURES_OF_PERFORMANCE:
            return "performance/validation_"
        return "penalty/" if measure in self.evaluation.evaluator.penalties.values() else "measures/"


def heat_maps(activation: np.ndarray, rule_probs: Sequence[float] | None = None) -> np.ndarray:
    """Return activation matrices [P, R, M] as images [P, height, width, 3], with modules matched to rules of
    these frequencies. White is nothing, darker is more."""
    from modtf.pages.pictures import HEAT  # matplotlib takes time

    images = []
    for matrix in activation[:SHOWN_MEMBERS]:
        matched = matrix.shape[1] > 1 and np.isfinite(matrix).all()
        ordered = matrix[:, best_permutation(matrix, rule_probs)] if matched else matrix
        images.append(HEAT(np.kron(ordered, np.ones((PIXELS, PIXELS))))[..., :3])
    return np.stack(images).astype(np.float32)


def _image_pb(name: str, images: np.ndarray) -> Summary:
    """Return images [P, height, width, 3] as a summary: their width, their height, and a PNG of each."""
    from matplotlib.image import imsave

    texts = [str(size).encode() for size in images.shape[2:0:-1]]
    for image in images:
        file = io.BytesIO()
        imsave(file, image, format="png")
        texts.append(file.getvalue())
    summary, tensor = Summary(), make_tensor_proto(texts, dtype=types_pb2.DT_STRING)
    metadata = create_summary_metadata(display_name=None, description=None)
    summary.value.add(tag=name, metadata=metadata, tensor=tensor)
    return summary
