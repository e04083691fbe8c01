"""s_n = s_{n-1} A_c + x_n B_c, y_n = s_n w: switching linear dynamics (the paper's RNN task)."""

import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import Parameters, RuleData
from modtf.families.rnn import WIDTH
from modtf.task import Task


class LinearDynamics(RuleData):
    """A sequence of D standard normal numbers; every rule is a linear step of a D-wide state.

    The matrices have standard deviation 1/sqrt(D), which keeps the state from exploding.
    """

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        rng = np.random.RandomState(task.data_seed)
        # The published code draws A with an axis of one, which changes no number.
        transition = rng.randn(task.num_rules, 1, WIDTH, WIDTH)[:, 0] / np.sqrt(WIDTH)
        drive = rng.randn(task.num_rules, WIDTH, WIDTH) / np.sqrt(WIDTH)
        return {"A": transition, "B": drive, "w": rng.randn(WIDTH, 1)}

    def outputs(self, parameters: Parameters, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        drives = tf.unstack(_apply(parameters["B"], inputs, rule), axis=1)
        state, states = tf.zeros_like(drives[0]), []
        for drive, rules in zip(drives, tf.unstack(rule, axis=1), strict=True):
            state = _apply(parameters["A"], state, rules) + drive
            states.append(state)
        trajectory = tf.stack(states, axis=1)  # [G, N, D]
        if self.task.target_width is not None:
            return trajectory
        return tf.reduce_sum(trajectory * parameters["w"][:, 0], axis=-1)


def _apply(matrices: tf.Tensor, vectors: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
    """Multiplies row vectors [..., D] with the matrix [R, D, D] of their rule [...].

    All rules are applied in one product and one is kept: the flops are few, gathering a matrix per token
    would move far more memory.
    """
    side_by_side = tf.reshape(tf.transpose(matrices, [1, 0, 2]), [WIDTH, -1])
    products = tf.matmul(tf.reshape(vectors, [-1, WIDTH]), side_by_side)
    products = tf.reshape(products, [-1, matrices.shape[0], WIDTH])
    return tf.reshape(tf.gather(products, tf.reshape(rule, [-1]), batch_dims=1), tf.shape(vectors))
