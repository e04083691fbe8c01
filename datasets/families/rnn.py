"""s_n = s_{n-1} A_c + x_n B_c, y_n = s_n w: switching linear dynamics (the paper's RNN task)."""

import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import TaskFamily
from modtf.datasets.random import standard_normal
from modtf.task import Task

WIDTH = 32  # D: of a token and of the hidden state


class LinearDynamics(TaskFamily):
    """A sequence of D standard normal numbers; every rule is a linear step of a D-wide state.

    The matrices have standard deviation 1/sqrt(D), which keeps the state from exploding.
    """

    token_width = WIDTH

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        rng = np.random.RandomState(task.data_seed)
        # The published code draws A with an axis of one, which changes no number.
        transition = rng.randn(task.num_rules, 1, WIDTH, WIDTH)[:, 0] / np.sqrt(WIDTH)
        drive = rng.randn(task.num_rules, WIDTH, WIDTH) / np.sqrt(WIDTH)
        return {"A": transition, "B": drive, "w": rng.randn(WIDTH, 1)}

    @property
    def target_width(self) -> int | None:
        return WIDTH if self.task.target == "state" else None

    def num_uniforms(self, num_tokens: int) -> int:
        return num_tokens * WIDTH

    def inputs(self, uniforms: tf.Tensor, num_tokens: int) -> tf.Tensor:
        return tf.reshape(
            standard_normal(uniforms), tf.concat([tf.shape(uniforms)[:2], [num_tokens, WIDTH]], 0)
        )

    def outputs(self, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        members_first = tf.transpose(inputs, [1, 2, 0, 3])  # [P, N, G, D]
        rules = tf.transpose(rule, [1, 2, 0])
        drives = self._apply("B", members_first, rules)
        state, states = tf.zeros_like(drives[:, 0]), []
        for step in range(inputs.shape[2]):
            state = self._apply("A", state, rules[:, step]) + drives[:, step]
            states.append(state)
        trajectory = tf.transpose(tf.stack(states), [2, 1, 0, 3])  # [G, P, N, D]
        if self.task.target == "state":
            return trajectory
        readout = self.parameter("w", inputs.dtype)[:, None, :, 0]
        return tf.reduce_sum(trajectory * readout, axis=-1)

    def _apply(self, name: str, vectors: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        """Multiplies row vectors [P, ..., D] with the matrix [D, D] of their rule [P, ...].

        All rules are applied in one product and one is kept: the flops are few, gathering a matrix per
        token would move far more memory.
        """
        matrices = self.parameter(name, vectors.dtype)  # [P, R, D, D]
        num_members = matrices.shape[0]
        side_by_side = tf.reshape(tf.transpose(matrices, [0, 2, 1, 3]), [num_members, WIDTH, -1])
        products = tf.matmul(tf.reshape(vectors, [num_members, -1, WIDTH]), side_by_side)
        own = tf.gather(
            tf.reshape(products, [-1, self.num_rules, WIDTH]), tf.reshape(rule, [-1]), batch_dims=1
        )
        return tf.reshape(own, tf.shape(vectors))
