"""Keeps the best weights of every member."""

import keras
import numpy as np

from modtf.training.callbacks.evaluate import EvaluateCallback


class BestWeights(keras.callbacks.Callback):
    """Each member's weights at its best evaluation so far: a population does not stop as one.

    The best is that of the least performance measure, as published: the loss in regression, the error in
    classification; the first of equals. The evaluation before training does not count.

    Args:
        evaluation: stands before this one in the list of callbacks.

    Attributes:
        value: the best performance of every member [P].
        step: when it was [P].
        weights: all weights' values then, trained or not; their first axis is the members' if P > 1.
    """

    def __init__(self, evaluation: EvaluateCallback):
        super().__init__()
        self.evaluation = evaluation
        self.num_members = len(evaluation.evaluator.population)
        self.value = np.full(self.num_members, np.inf)
        self.step = np.zeros(self.num_members, np.int64)
        self.weights: list[np.ndarray] = []

    def on_train_begin(self, logs=None):
        if not self.weights:
            self.weights = [v.numpy().copy() for v in self.model.weights]

    def on_epoch_end(self, epoch, logs=None):
        value = self.evaluation.latest[self.evaluation.evaluator.population.task.performance]
        better = value < self.value
        self.value = np.where(better, value, self.value)
        self.step = np.where(better, self.evaluation.steps[-1], self.step)
        if not better.any():
            return
        for best, variable in zip(self.weights, self.model.weights, strict=True):
            current = variable.numpy()
            if self.num_members == 1:
                best[...] = current
            else:
                best[better] = current[better]

    def state(self) -> dict[str, np.ndarray]:
        """Everything kept, as arrays, for a checkpoint."""
        weights = {f"weight_{i}": w for i, w in enumerate(self.weights)}
        return {"value": self.value, "step": self.step, **weights}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Continues where `state` was taken."""
        self.value, self.step = state["value"], state["step"]
        self.weights = [state[f"weight_{i}"] for i in range(len(state) - 2)]
