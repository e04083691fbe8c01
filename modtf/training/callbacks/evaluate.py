"""Measures the model at every evaluation, on its own stream."""

import time

import keras
import numpy as np

from modtf.evaluation.evaluator import Evaluator


class EvaluateCallback(keras.callbacks.Callback):
    """Before training and at the end of every epoch: loss, error, activation matrix and measures, per member.

    They reach `history` as means over members (`val_loss`, `alignment`, ...; not those of step 0, for which
    Keras has no place). Callbacks that need them whole are given this one and stand after it in the list.

    Args:
        evaluator: what to measure, on a split of its own.

    Attributes:
        steps: the training steps evaluated so far, 0 first.
        records: measure -> list of values [P], one per evaluation.
        activations: list of activation matrices [P, R, M].
        seconds: training time between evaluations, without the evaluations.
    """

    def __init__(self, evaluator: Evaluator):
        super().__init__()
        self.evaluator = evaluator
        self.steps: list[int] = []
        self.records: dict[str, list[np.ndarray]] = {}
        self.activations: list[np.ndarray] = []
        self.seconds: list[float] = []
        self._began: float | None = None  # the epoch, on the clock
        self._before = 0.0  # seconds of it in a run that was interrupted

    @property
    def latest(self) -> dict[str, np.ndarray]:
        """measure -> values [P] of the last evaluation."""
        return {measure: values[-1] for measure, values in self.records.items()}

    def on_train_begin(self, logs=None):
        if not self.steps:  # else training resumes
            self._measure(0)

    def on_epoch_begin(self, epoch, logs=None):
        self._began, self._before = time.perf_counter() - self._before, 0.0

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(self._running())
        self._began = None
        self._measure((epoch + 1) * self.params["steps"])
        if logs is not None:
            for measure, values in self.latest.items():
                name = f"val_{measure}" if measure in ("loss", "error") else measure
                logs[name] = float(np.mean(values))

    def _running(self) -> float:
        return 0.0 if self._began is None else time.perf_counter() - self._began

    def _measure(self, step: int) -> None:
        scores = self.evaluator.run()
        self.steps.append(step)
        for measure, values in scores.in_distribution().items():
            self.records.setdefault(measure, []).append(values)
        self.activations.append(scores.activation)

    def state(self) -> dict[str, np.ndarray]:
        """Everything recorded, as arrays, for a checkpoint."""
        arrays = {f"record_{name}": np.stack(values) for name, values in self.records.items()}
        arrays |= {"steps": np.array(self.steps), "seconds": np.array(self.seconds)}
        arrays["running"] = np.array(self._running())
        return {**arrays, "activations": np.stack(self.activations)}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Continues where `state` was taken."""
        self.steps = [int(step) for step in state["steps"]]
        self.activations = list(state["activations"])
        self.seconds = [float(s) for s in state["seconds"]]
        self._before = float(state["running"])
        prefix = "record_"
        self.records = {
            name.removeprefix(prefix): list(values)
            for name, values in state.items()
            if name.startswith(prefix)
        }
