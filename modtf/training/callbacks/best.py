"""Keeps the best weights of every member."""

import keras
import numpy as np


class BestWeights:
    """Each member's weights at its best evaluation so far: a population does not stop as one.

    Use as a listener of `EvaluateCallback`; members of a model without members axis are one.

    Args:
        model: whose trainable variables are followed; their first axis is the members' if P > 1.
        num_members: P.
    """

    def __init__(self, model: keras.Model, num_members: int):
        self.model, self.num_members = model, num_members
        self.loss = np.full(num_members, np.inf)
        self.step = np.zeros(num_members, np.int64)
        self.weights = [v.numpy().copy() for v in model.trainable_variables]

    def __call__(self, step: int, record: dict[str, np.ndarray], activation: np.ndarray) -> None:
        better = record["loss"] < self.loss
        self.loss = np.where(better, record["loss"], self.loss)
        self.step = np.where(better, step, self.step)
        if not better.any():
            return
        for best, variable in zip(self.weights, self.model.trainable_variables, strict=True):
            current = variable.numpy()
            if self.num_members == 1:
                best[...] = current
            else:
                best[better] = current[better]

    def state(self) -> dict[str, np.ndarray]:
        """Everything kept, as arrays, for a checkpoint."""
        return {
            "loss": self.loss,
            "step": self.step,
            **{f"weight_{i}": w for i, w in enumerate(self.weights)},
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Continues where `state` was taken."""
        self.loss, self.step = state["loss"], state["step"]
        self.weights = [state[f"weight_{i}"] for i in range(len(self.weights))]
