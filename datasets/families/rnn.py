"""s_n = s_{n-1} A_c + x_n B_c, y_n = s_n w: switching linear dynamics (the paper's RNN task)."""

from typing import Any

import numpy as np

from modtf.datasets.families.base import Parameters, RuleData
from modtf.tasks.task import Task


class LinearDynamics(RuleData):
    """A sequence of D standard normal numbers. Every rule is a linear step of a D-wide state.

    The matrices have standard deviation 1/sqrt(D), which keeps the state from exploding.
    """

    runs_on_device = True
    splits_share_programs = True

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        rng, width = np.random.RandomState(task.data_seed), task.token_width
        # The published code draws A with an additional axis of one, which changes no number.
        transition = rng.randn(task.num_rules, 1, width, width)[:, 0] / np.sqrt(width)
        drive = rng.randn(task.num_rules, width, width) / np.sqrt(width)
        return {"A": transition, "B": drive, "w": rng.randn(width, 1)}

    def outputs(self, parameters: Parameters, inputs: Any, rule: Any) -> Any:
        drives = self._apply(parameters["B"], inputs, rule)
        state, states = self.ops.zeros_like(drives[:, 0]), []
        for n in range(inputs.shape[1]):
            state = self._apply(parameters["A"], state, rule[:, n]) + drives[:, n]
            states.append(state)
        trajectory = self.ops.stack(states, axis=1)  # [G, N, D]
        if self.task.target_width is not None:
            return trajectory
        return self.ops.sum(trajectory * parameters["w"][:, 0], axis=-1)

    def _apply(self, matrices: Any, vectors: Any, rule: Any) -> Any:
        """Multiply row vectors [..., D] by the matrix [R, D, D] of their rule [...].

        One product applies all rules, and one result is kept. The flops are few; gathering a matrix per token
        would move far more memory.
        """
        ops, width = self.ops, vectors.shape[-1]
        side_by_side = ops.reshape(ops.transpose(matrices, [1, 0, 2]), [width, -1])
        products = ops.matmul(ops.reshape(vectors, [-1, width]), side_by_side)
        products = ops.reshape(products, [-1, matrices.shape[0], width])
        return ops.reshape(ops.gather(products, ops.reshape(rule, [-1]), batch_dims=1), vectors.shape)
