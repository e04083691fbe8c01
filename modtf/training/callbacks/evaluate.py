"""Measures the model at every evaluation, on its own stream."""

import time
from collections.abc import Sequence

import keras
import numpy as np

from modtf.cell import Evaluation
from modtf.evaluation.evaluator import Evaluator
from modtf.task import TRAINING_LENGTH, Task


class EvaluateCallback(keras.callbacks.Callback):
    """At the end of every epoch: loss, error, activation matrix and the five measures, per member.

    They reach `history` as means over members (`val_loss`, `alignment`, ...), and whole through
    `records`, `activations` and `listeners`.

    Args:
        task: the task, or the tasks of a population.
        sizes: how much data to read each time.
        steps_per_epoch: training steps between evaluations.

    Attributes:
        steps: the training steps evaluated so far.
        records: measure -> list of values [P], one per evaluation.
        activations: list of activation matrices [P, R, M].
        seconds: training time between evaluations, without the evaluations.
        listeners: called with (step, record, activation [P, R, M]) after each evaluation.
    """

    def __init__(self, task: Task | Sequence[Task], sizes: Evaluation, steps_per_epoch: int):
        super().__init__()
        self.task, self.sizes, self.steps_per_epoch = task, sizes, steps_per_epoch
        self.steps: list[int] = []
        self.records: dict[str, list[np.ndarray]] = {}
        self.activations: list[np.ndarray] = []
        self.seconds: list[float] = []
        self.listeners: list = []
        self._evaluator: Evaluator | None = None

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self._began)
        if self._evaluator is None:
            self._evaluator = Evaluator(self.model, self.task, self.sizes, split="validation")
        scores = self._evaluator.run()
        record = {
            measure: values
            for (measure, scale, seq_len), values in scores.rows.items()
            if scale == 1.0 and seq_len in (None, TRAINING_LENGTH)  # in distribution
        }
        self.steps.append((epoch + 1) * self.steps_per_epoch)
        for measure, values in record.items():
            self.records.setdefault(measure, []).append(values)
        self.activations.append(scores.activation)
        for listener in self.listeners:
            listener(self.steps[-1], record, scores.activation)
        if logs is not None:
            for measure, values in record.items():
                name = f"val_{measure}" if measure in ("loss", "error") else measure
                logs[name] = float(np.mean(values))

    def state(self) -> dict[str, np.ndarray]:
        """Everything recorded, as arrays, for a checkpoint."""
        if not self.steps:
            return {}
        arrays = {f"record_{name}": np.stack(values) for name, values in self.records.items()}
        arrays["seconds"] = np.array(self.seconds)
        return {"steps": np.array(self.steps), "activations": np.stack(self.activations), **arrays}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Continues where `state` was taken."""
        if "steps" not in state:
            return
        self.steps = [int(step) for step in state["steps"]]
        self.activations = list(state["activations"])
        self.seconds = [float(s) for s in state["seconds"]]
        prefix = "record_"
        self.records = {
            name.removeprefix(prefix): list(values)
            for name, values in state.items()
            if name.startswith(prefix)
        }
