"""y = alpha_c x1 + beta_c x2 (the paper's MLP task)."""

import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import Parameters, TaskFamily
from modtf.datasets.random import standard_normal
from modtf.task import Task


class Affine(TaskFamily):
    """Two standard normal numbers per example; every rule is a linear map of them."""

    is_sequence = False
    token_width = 2

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        rng = np.random.RandomState(task.data_seed)
        return {"alpha": rng.randn(task.num_rules), "beta": rng.randn(task.num_rules)}

    def num_uniforms(self, num_tokens: int) -> int:
        return 2

    def inputs(self, uniforms: tf.Tensor, num_tokens: int) -> tf.Tensor:
        return standard_normal(uniforms)

    def outputs(self, parameters: Parameters, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        return weighted_sum(parameters, inputs, rule)


def weighted_sum(parameters: Parameters, pairs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
    """alpha_c a + beta_c b of pairs (a, b) [..., 2] and rules c [...]."""
    weights = tf.stack([parameters["alpha"], parameters["beta"]], axis=-1)
    return tf.reduce_sum(tf.gather(weights, rule) * pairs, axis=-1)
