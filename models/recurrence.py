"""A modular recurrence: cells propose values, the router weights them, and one state is shared.

`@CELLS.register(name)` adds a cell, which needs `step`, `num_gates` and `num_states`. A cell that also has
`num_kept`, `activate`, `propose` and `gradient` trains faster (`models.kernels.scan`). There the G gates come
one by one, each [P, M, h, B], and expensive terms are computed once.
"""

from typing import Any

import keras
from keras import ops

from modtf.base.registry import Registry
from modtf.models.initial import InitialWeights
from modtf.models.kernels.scan import Scan, ScanLayout
from modtf.models.layers import Dense, MemberLayer
from modtf.models.routers.base import Router


def check_recurrent_cell(name: str, cell: Any) -> None:
    """Raise `ValueError` if a cell lacks something that a recurrence requires."""
    lacking = [needed for needed in ("num_gates", "num_states", "step") if not hasattr(cell, needed)]
    if lacking:
        raise ValueError(
            f"The recurrent cell {name!r} does not define {', '.join(lacking)}. Define what "
            "modtf.models.recurrence documents."
        )


CELLS: Registry[Any] = Registry("recurrent cell", check=check_recurrent_cell)


@CELLS.register("lstm")
class LSTMCell:
    """Gates i, f, o and candidate g; the state is (h, c)."""

    num_gates, num_states, num_kept = 4, 2, 1

    @staticmethod
    def step(gates, state):
        """Map gates [P, M, 4, h, B] and state (h, c), each [P, h, B], to proposals, each [P, M, h, B]."""
        i, f, o, g = (gates[:, :, n] for n in range(4))
        cell = ops.sigmoid(f) * state[1][:, None] + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(cell), cell

    @staticmethod
    def activate(gates):
        """Apply tanh to all gates [P, 4, M, h, B] in one pass: sigmoid(x) = (tanh(x / 2) + 1) / 2."""
        scale = ops.convert_to_tensor([0.5, 0.5, 0.5, 1.0], gates.dtype)
        return ops.tanh(gates * scale[:, None, None, None])

    @staticmethod
    def propose(activated, state, kept=None):
        """Map activated gates, shared state and values kept by an earlier call to proposals and values to
        keep."""
        i, f, o, g = LSTMCell._gates(activated)
        cell = f * state[1][:, None] + i * g
        (squashed,) = kept or (ops.tanh(cell),)
        return (o * squashed, cell), (squashed,)

    @staticmethod
    def gradient(activated, kept, state, upstream):
        """Map the gradients of the proposals to those of the gates before `activate`, each [P, M, h, B], and
        of each shared state, by module; None for a state that the proposals do not depend on."""
        i, f, o, g = LSTMCell._gates(activated)
        before, (squashed,), (of_hidden, of_cell) = state[1][:, None], kept, upstream
        of_cell = of_cell + of_hidden * o * (1 - squashed * squashed)
        of_i, of_f = of_cell * g * i * (1 - i), of_cell * before * f * (1 - f)
        of_o, of_g = of_hidden * squashed * o * (1 - o), of_cell * i * (1 - g * g)
        return (of_i, of_f, of_o, of_g), (None, of_cell * f)

    @staticmethod
    def _gates(activated):
        i, f, o, g = activated
        return 0.5 * i + 0.5, 0.5 * f + 0.5, 0.5 * o + 0.5, g


@CELLS.register("simple")
class SimpleCell:
    """tanh(W x + U h); the state is h."""

    num_gates, num_states, num_kept = 1, 1, 0

    @staticmethod
    def step(gates, state):
        """Map gates [P, M, 1, h, B] and shared state (h,) to proposals ([P, M, h, B],)."""
        return (ops.tanh(gates[:, :, 0]),)

    @staticmethod
    def activate(gates):
        return ops.tanh(gates)

    @staticmethod
    def propose(activated, state, kept=None):
        return tuple(activated), ()

    @staticmethod
    def gradient(activated, kept, state, upstream):
        return (upstream[0] * (1 - activated[0] * activated[0]),), (None,)


class StateScore(MemberLayer):
    """w_m . ReLU([W_m x ; U_m h]): each module's score from the inputs of its own gates, without a bias."""

    def __init__(self, initial: InitialWeights, modules: int, inputs: int, name: str, dtype: Any = None):
        super().__init__(initial, name, dtype)
        self.kernel = self.uniform("kernel", [2, modules, inputs, 1], 2 * inputs)

    def call(self, from_input, from_state):
        """Map W_m x and U_m h, each [P, M, inputs, B], to [P, M, B]."""
        return ops.sum(
            ops.relu(from_input) * self.kernel[:, 0] + ops.relu(from_state) * self.kernel[:, 1], axis=2
        )


class SharedState(keras.layers.Layer):
    """M cells around one shared state. It runs all tokens at once, or one as a cell of `keras.layers.RNN`.

    `scan` is faster, and works for cells with written-out gradients. All other cells use a loop of
    `keras.layers.RNN`. It compiles in the same time whatever the length, and can be differentiated under XLA,
    which `keras.ops.scan` cannot with TensorFlow.

    In both, `routing` is p. If the router needs scores and runs at every step, `routing` is the one-hot rules
    with the router's extra input below them. If the router penalises scores, both return them with p.

    Args:
        cell: an entry of `CELLS`.
        modules: M.
        width: h, the state's width.
        router: runs at every step if it needs scores; rejected if it `sees_batch`.
    """

    def __init__(
        self, initial: InitialWeights, cell: Any, modules: int, width: int, router: Router, dtype: Any = None
    ):
        super().__init__(name="shared_state", dtype=dtype)
        if router.sees_batch:
            raise ValueError(
                f"The router {type(router).__name__} lets modules choose among all tokens of a batch, but a "
                "recurrence has seen only the tokens so far. Choose another architecture or variant."
            )
        self.cell, self.modules, self.width, self.router = cell, modules, width, router
        self.members, self.gates = len(initial.members), cell.num_gates * width
        self.state_size = [width] * cell.num_states
        #: the published monolithic cell has biases, modules have none
        self.use_bias = modules == 1 and not router.needs_scores
        self.from_state = Dense(
            initial, width, modules * self.gates, "from_state", use_bias=self.use_bias, dtype=dtype
        )
        if router.needs_scores:
            self.score = StateScore(initial, modules, self.gates, "score", dtype)
        self.built = True

    @property
    def can_scan(self) -> bool:
        """Return whether the gradient of a step is known without a recording. The cell's gradient must be
        written out, and a router inside the loop must read neither weights nor state."""
        asked_outside = not self.router.needs_scores
        return hasattr(self.cell, "gradient") and (
            asked_outside or len(self.router.variables) == len(self.router.kept)
        )

    def call(self, inputs, states):
        """Run one token. Return p and the next state as one tensor [P, h + M, B], and the next states.

        The inputs are W x of all modules and the routing, [P, M * gates + M or R + K, B], and the shared
        states, each [P, h, B]. If the router penalises scores, the tensor has them, too: [P, h + 2M, B]."""
        driven, routing = inputs[:, : self.modules * self.gates], inputs[:, self.modules * self.gates :]
        recurrent, priced = self.from_state(states[0]), []
        if self.router.needs_scores:
            by_module = [self.members, self.modules, self.gates, -1]
            scores = self.score(ops.reshape(driven, by_module), ops.reshape(recurrent, by_module))
            activation = self.router.route_with_extra(routing, scores)
            priced = [scores] * self.router.penalises_scores
        else:
            activation = routing
        gates = ops.reshape(
            driven + recurrent, [self.members, self.modules, self.cell.num_gates, self.width, -1]
        )
        proposals = self.cell.step(gates, states)
        if self.modules == 1:
            states = [proposal[:, 0] for proposal in proposals]
        else:
            states = [ops.sum(activation[:, :, None] * proposal, axis=1) for proposal in proposals]
        return ops.concatenate([states[0], activation, *priced], axis=1), states

    def scan(self, from_input: Dense, encoded, routing):
        """Run all tokens. Return states [P, h, N, B] and p [P, M, N, B], with scores [P, M, N, B] if
        penalised. The inputs are W of all modules, x [P, e, N, B] and the routing [P, M or R + K, N, B]."""
        tokens, routing = (
            ops.transpose(ops.cast(tensor, self.compute_dtype), [2, 0, 1, 3]) for tensor in (encoded, routing)
        )
        kernels, score = [from_input.kernel, self.from_state.kernel], ops.zeros([1], tokens.dtype)
        if self.use_bias:  # the bias becomes a column of the kernel, whose input is 1
            tokens = ops.concatenate([tokens, ops.ones_like(tokens[:, :, :1])], axis=2)
            kernels.insert(1, from_input.bias + self.from_state.bias)
        if self.router.needs_scores:
            score = ops.stack([self._gate_major(self.score.kernel[:, s]) for s in range(2)])
        else:
            kernels = [ops.concatenate(kernels, axis=2)]
        kernels = [
            ops.reshape(self._gate_major(kernel), [self.members, -1, kernel.shape[-1]]) for kernel in kernels
        ]
        kernels, score = [ops.cast(kernel, tokens.dtype) for kernel in kernels], ops.cast(score, tokens.dtype)
        num_tokens, _, num_inputs, batch = ops.shape(tokens)
        layout = ScanLayout(
            members=self.members,
            gates=self.cell.num_gates,
            modules=self.modules,
            width=self.width,
            states=self.cell.num_states,
            inputs=num_inputs,
            num_tokens=num_tokens,
            batch=batch,
            scored=self.router.needs_scores,
            priced=self.router.penalises_scores,
            dtype=tokens.dtype,
            product_dtype=encoded.dtype,
        )
        scan = Scan(self.cell, layout, self.router.route_with_extra)
        return [ops.transpose(values, [1, 2, 0, 3]) for values in scan(tokens, routing, score, *kernels)]

    def _gate_major(self, weight):
        """Reorder rows [M, G, h] by gate: [P, ..., k] -> [P, G, M, h, k]."""
        shape = [self.members, self.modules, self.cell.num_gates, self.width, weight.shape[-1]]
        return ops.transpose(ops.reshape(weight, shape), [0, 2, 1, 3, 4])
