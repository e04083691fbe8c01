"""What every task family provides."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from modtf.task import Task


class TaskFamily(ABC):
    """Makes and labels the tokens of a population of tasks of one shape.

    Axes: G examples, P members, N tokens (no N axis where `is_sequence` is false), F = `token_width`.

    Args:
        tasks: the P tasks; they differ in `data_seed` alone.
    """

    is_sequence = True

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
        """Uniform numbers [G, P, num_uniforms] -> inputs [G, P, (N,) F]."""

    @abstractmethod
    def outputs(self, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        """Inputs [G, P, (N,) F] and rules [G, P, (N,)] -> y [G, P, (N,)], in the dtype of `inputs`."""

    def parameter(self, name: str, dtype: tf.DType) -> tf.Tensor:
        """The parameter of every member, [P, ...]."""
        return tf.constant(self.stacked[name], dtype)

    def per_token(self, name: str, rule: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Looks up a parameter [P, R] by each token's rule [G, P, (N,)], giving the shape of `rule`."""
        members = tf.range(tf.shape(rule)[1]) * self.num_rules
        members = tf.reshape(members, [1, -1] + [1] * (rule.shape.rank - 2))
        return tf.gather(tf.reshape(self.parameter(name, dtype), [-1]), rule + members)
