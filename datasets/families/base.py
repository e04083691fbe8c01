"""What every task family provides."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from modtf.task import Task

Parameters = Mapping[str, tf.Tensor]


class TaskFamily(ABC):
    """Makes and labels the tokens of tasks of one shape.

    Axes: G examples, N tokens (no N axis where `is_sequence` is false), F = `token_width`.

    Args:
        tasks: the P tasks of a population; they differ in `data_seed` alone.
    """

    is_sequence = True
    min_tokens = 1  # of a sequence

    def __init__(self, tasks: Sequence[Task]):
        self.task = tasks[0]
        self.num_rules = self.task.num_rules
        drawn = [self.parameters(task) for task in tasks]
        self.stacked = {name: np.stack([d[name] for d in drawn]) for name in drawn[0]}

    @staticmethod
    @abstractmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        """The published parameters of one task, float64, drawn from `RandomState(task.data_seed)`."""

    @property
    @abstractmethod
    def token_width(self) -> int:
        """F, the numbers per token in `inputs`."""

    @property
    def target_width(self) -> int | None:
        """Width of a token's target; None where it is one number without an axis."""
        return None

    @abstractmethod
    def num_uniforms(self, num_tokens: int) -> int:
        """How many uniform numbers `inputs` consumes per example."""

    @abstractmethod
    def inputs(self, uniforms: tf.Tensor, num_tokens: int) -> tf.Tensor:
        """Uniform numbers [G, num_uniforms] -> inputs [G, (N,) F]."""

    @abstractmethod
    def outputs(self, parameters: Parameters, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        """Inputs [G, (N,) F] and rules [G, (N,)] -> y [G, (N,)], in the dtype of inputs and parameters."""
