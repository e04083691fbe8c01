"""Measures the model at every evaluation on separate streams, and keeps the best weights."""

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import Scores, from_arrays, mean_scores, row_name, to_arrays
from modtf.tasks.condition import IID


class Clock(keras.callbacks.Callback):
    """Seconds of training by epoch, in `seconds`; time before an interruption within an epoch counts."""

    def __init__(self):
        super().__init__()
        self.seconds: list[float] = []
        self._began: float | None = None  # start of the epoch, by the clock
        self._before = 0.0  # seconds of this epoch before an interruption

    def on_epoch_begin(self, epoch, logs=None):
        self._began, self._before = time.perf_counter() - self._before, 0.0

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(self._running())
        self._began = None

    def _running(self) -> float:
        return 0.0 if self._began is None else time.perf_counter() - self._began

    def state(self) -> dict[str, np.ndarray]:  # arrays for a checkpoint, in every `state`
        return {"seconds": np.array(self.seconds), "running": np.array(self._running())}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.seconds, self._before = state["seconds"].tolist(), float(state["running"])


class EvaluateCallback(Clock):
    """Loss, error, activation matrix and measures per member, before training and at the ends of epochs.

    `history` receives them as means over members (`val_loss`, `alignment`, ...), except those of step 0, for
    which Keras has no place. Callbacks that need the full values receive this one and follow it in the list.

    Args:
        evaluator: what to measure, on a split other than "train".

    Attributes:
        steps: the training steps evaluated so far, 0 first.
        found: the scores at each of these steps.
        seconds: training time between evaluations, without the evaluations.
        begin: the last step of earlier trainings of the model; 0 without one.
        every: the number of epochs between two evaluations.
    """

    def __init__(self, evaluator: Evaluator):
        super().__init__()
        self.evaluator = evaluator
        self.identity = evaluator.identity  # for a checkpoint
        self.begin, self.every = 0, 1
        self.steps: list[int] = []
        self.found: list[Scores] = []

    def check_unused(self, model: keras.Model, resumes: bool) -> None:
        """Raise `ValueError` if it measures another model, or has scores of a training that it does not
        resume."""
        other = self.evaluator.model is not model
        if other or (self.steps and not resumes):
            what = "measures another model" if other else "has scores of an earlier training"
            raise ValueError(
                f"The EvaluateCallback {what}. Give each training its own: EvaluateCallback(Evaluator(model, "
                "...))."
            )

    def on_train_begin(self, logs=None):
        if not self.steps:  # otherwise training resumes
            self._measure(self.begin)

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch)
        if (epoch + 1) % self.every:
            return
        self._measure(self.begin + (epoch + 1) * self.params["steps"])
        if logs is not None:
            family = self.evaluator.population.family
            shown = (*family.while_training, *family.groups)
            for (measure, condition, place), values in self.found[-1].rows.items():
                if condition in shown:
                    what = f"val_{measure}" if measure in ("loss", "error") else measure
                    logs[row_name(what, condition, place)] = float(np.mean(values))

    def _measure(self, step: int) -> None:
        self.found.append(self.evaluator.run())
        self.steps.append(step)

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "steps": np.array(self.steps), **to_arrays(self.found)}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        super().load_state(state)
        self.steps, self.found = state["steps"].tolist(), from_arrays(state)


class BestWeights(keras.callbacks.Callback):
    """Each member's `weights` at its best evaluation so far, with its `value` [P] and `step` [P].

    The best evaluation has the smallest performance measure, as published: the loss in regression, the error
    in classification; or the smallest result of `judge`, a number or [P]. Among equals the first counts. The
    evaluation before training does not count. A member without a finite evaluation keeps its initial weights
    and the step 0.
    """

    def __init__(self, evaluation: EvaluateCallback, judge: Callable[[], Any] | None = None):
        super().__init__()
        self.evaluation, self.judge = evaluation, judge or self._performance
        self.num_members = len(evaluation.evaluator.population)
        self.value = np.full(self.num_members, np.inf)
        self.step = np.zeros(self.num_members, np.int64)
        self.weights: list[np.ndarray] = []

    def on_train_begin(self, logs=None):
        if not self.weights:
            self.weights = [np.array(v.numpy()) for v in self.model.weights]  # a scalar, too, is an array

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.evaluation.every:
            return
        value = self.judge()
        better = value < self.value
        self.value = np.where(better, value, self.value)
        step = self.evaluation.begin + (epoch + 1) * self.params["steps"]
        self.step = np.where(better, step, self.step)
        if better.any():
            chosen = better if self.num_members > 1 else ...
            for best, variable in zip(self.weights, self.model.weights, strict=True):
                best[chosen] = variable.numpy()[chosen]

    def _performance(self) -> np.ndarray:
        return self.evaluation.found[-1].rows[self.evaluation.evaluator.population.task.performance, IID, ""]

    def restore(self) -> None:
        """Give the model its best weights."""
        for variable, value in zip(self.model.weights, self.weights, strict=True):
            variable.assign(value)

    def state(self) -> dict[str, np.ndarray]:
        weights = {f"weight_{i}": w for i, w in enumerate(self.weights)}
        return {"value": self.value, "step": self.step, **weights}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.value, self.step = state["value"], state["step"]
        self.weights = [state[f"weight_{i}"] for i in range(len(state) - 2)]


class TailCallback(keras.callbacks.Callback):
    """The mean over evaluations after the last `length` epochs: with a constant rate one step alone is noisy.
    With `anew`, each evaluation continues in the stream where the previous one ended."""

    def __init__(self, evaluator: Evaluator, length: int, anew: bool = False):
        super().__init__()
        self.evaluator, self.length, self.anew = evaluator, length, anew
        self.found: list[Scores] = []
        self.identity = evaluator.identity  # for a checkpoint

    def on_epoch_end(self, epoch, logs=None):
        if epoch >= self.params["epochs"] - self.length:
            share = (len(self.found), self.length) if self.anew else (0, 1)
            self.found.append(self.evaluator.run(*share))

    def scores(self) -> Scores:
        """Return the mean of the evaluations; there must be at least one."""
        return mean_scores(self.found)

    def state(self) -> dict[str, np.ndarray]:
        return to_arrays(self.found)

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.found = from_arrays(state)
