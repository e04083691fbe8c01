"""One step of a modular recurrence: the modules propose, the router weighs, one state is shared."""

from typing import Any

import keras
from keras import ops

from modtf.models.initial import InitialWeights
from modtf.models.kernels.scan import Scan
from modtf.models.layers import Dense, MemberLayer
from modtf.models.routers.base import Router


class StateScore(MemberLayer):
    """w_m . ReLU([W_m x ; U_m h]): each module's score from its own gates' inputs; no bias."""

    def __init__(self, initial: InitialWeights, modules: int, inputs: int, name: str, dtype: Any = None):
        super().__init__(initial, name, dtype)
        self.kernel = self.uniform("kernel", [2, modules, inputs, 1], 2 * inputs)

    def call(self, from_input, from_state):
        """W_m x and U_m h, each [P, M, inputs, B] -> [P, M, B]."""
        return ops.sum(
            ops.relu(from_input) * self.kernel[:, 0] + ops.relu(from_state) * self.kernel[:, 1], axis=2
        )


class SharedState(keras.layers.Layer):
    """M cells around one shared state: all tokens at once, or one as a cell of `keras.layers.RNN`.

    `scan` is the fast way, for cells and routers that have written out their gradients. A loop of
    `keras.layers.RNN` does for all others: it compiles in the same time whatever the length, and can be
    differentiated under XLA, which `keras.ops.scan` cannot with TensorFlow.

    Args:
        initial: draws the initial weights.
        cell: an entry of `modtf.models.cells.CELLS`.
        modules: M.
        width: h, the state's width.
        router: asked at every step if it needs scores.
    """

    def __init__(
        self, initial: InitialWeights, cell: Any, modules: int, width: int, router: Router, dtype: Any = None
    ):
        super().__init__(name="shared_state", dtype=dtype)
        self.cell, self.modules, self.width, self.router = cell, modules, width, router
        self.members, self.gates = len(initial.members), cell.num_gates * width
        self.state_size = [width] * cell.num_states
        self.from_state = Dense(
            initial, width, modules * self.gates, "from_state", use_bias=modules == 1, dtype=dtype
        )
        if router.needs_scores:
            self.score = StateScore(initial, modules, self.gates, "score", dtype)
        self.built = True

    def call(self, inputs, states):
        """One token.

        Args:
            inputs: W x of all modules and, unless the router needs scores, p: [P, M * gates (+ M), B].
            states: shared states, each [P, h, B].

        Returns:
            Next state and p in one tensor [P, h + M, B], and the next states.
        """
        driven, activation = inputs[:, : self.modules * self.gates], inputs[:, self.modules * self.gates :]
        recurrent = self.from_state(states[0])
        if self.router.needs_scores:
            by_module = [self.members, self.modules, self.gates, -1]
            activation = self.router(
                scores=self.score(ops.reshape(driven, by_module), ops.reshape(recurrent, by_module))
            )
        gates = ops.reshape(
            driven + recurrent, [self.members, self.modules, self.cell.num_gates, self.width, -1]
        )
        proposals = self.cell.step(gates, states)
        if self.modules == 1:
            states = [proposal[:, 0] for proposal in proposals]
        else:
            states = [ops.sum(activation[:, :, None] * proposal, axis=1) for proposal in proposals]
        return ops.concatenate([states[0], activation], axis=1), states

    def scan(self, from_input: Dense, encoded, activation):
        """All tokens.

        Args:
            from_input: W of all modules.
            encoded: x [P, e, N, B].
            activation: p [P, M, N, B]; None where the router needs scores.

        Returns:
            States h [P, h, N, B] and p [P, M, N, B].
        """
        tokens, scored = ops.transpose(encoded, [2, 0, 1, 3]), self.router.needs_scores
        kernels = [from_input.kernel, self.from_state.kernel]
        if from_input.bias is not None:  # the kernel of one input more, which is 1
            tokens = ops.concatenate([tokens, ops.ones_like(tokens[:, :, :1])], axis=2)
            kernels.insert(1, from_input.bias + self.from_state.bias)
        num_tokens, _, num_inputs, batch = ops.shape(tokens)
        if scored:
            activation = ops.zeros([num_tokens, self.members, self.modules, batch], tokens.dtype)
            score = ops.stack([self._gate_major(self.score.kernel[:, s]) for s in range(2)])
        else:
            activation = ops.transpose(activation, [2, 0, 1, 3])
            score = ops.zeros([1], tokens.dtype)
            kernels = [ops.concatenate(kernels, axis=2)]
        kernels = [
            ops.reshape(self._gate_major(kernel), [self.members, -1, kernel.shape[-1]]) for kernel in kernels
        ]
        shape = [self.members, self.cell.num_gates, self.modules, self.width, batch]
        scan = Scan(self.cell, self.router, shape, num_inputs, num_tokens, tokens.dtype)
        states, activation = scan(tokens, activation, score, *kernels)
        return ops.transpose(states, [1, 2, 0, 3]), ops.transpose(activation, [1, 2, 0, 3])

    def _gate_major(self, weight):
        """Rows ordered [M, G, h], [P, ..., k] -> [P, G, M, h, k]."""
        shape = [self.members, self.modules, self.cell.num_gates, self.width, weight.shape[-1]]
        return ops.transpose(ops.reshape(weight, shape), [0, 2, 1, 3, 4])
