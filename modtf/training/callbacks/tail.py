"""Measures the model as at the end of training, at every one of the last evaluations."""

import keras
import numpy as np

from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import Scores, from_arrays, mean_scores, to_arrays
from modtf.protocol import tail_length


class TailCallback(keras.callbacks.Callback):
    """The mean over the last ten evaluations, or the last half where there are few (`tail_length`).

    At a constant learning rate the last step alone is noise. The evaluation before training does not count.

    Args:
        evaluator: what to measure: under every condition, but on less data than once at the end.
    """

    def __init__(self, evaluator: Evaluator):
        super().__init__()
        self.evaluator = evaluator
        self.found: list[Scores] = []

    def on_epoch_end(self, epoch, logs=None):
        if epoch >= self.params["epochs"] - tail_length(self.params["epochs"]):
            self.found.append(self.evaluator.run())

    def scores(self) -> Scores:
        """The mean of what was found; there must have been an evaluation."""
        return mean_scores(self.found)

    def state(self) -> dict[str, np.ndarray]:
        """Everything found, as arrays, for a checkpoint."""
        return to_arrays(self.found)

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Continues where `state` was taken."""
        self.found = from_arrays(state, self.evaluator.population.family)
