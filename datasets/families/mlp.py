"""y = alpha_c x1 + beta_c x2 (the paper's MLP task)."""

import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import Parameters, RuleData
from modtf.task import Task


class Affine(RuleData):
    """Two standard normal numbers per example; every rule is a linear map of them."""

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        rng = np.random.RandomState(task.data_seed)
        return {"alpha": rng.randn(task.num_rules), "beta": rng.randn(task.num_rules)}

    def outputs(self, parameters: Parameters, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        return weighted_sum(parameters, inputs, rule)


def weighted_sum(parameters: Parameters, pairs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
    """alpha_c a + beta_c b of pairs (a, b) [..., 2] and rules c [...]."""
    weights = tf.stack([parameters["alpha"], parameters["beta"]], axis=-1)
    return tf.reduce_sum(tf.gather(weights, rule) * pairs, axis=-1)
