"""Recurrent cells: what each module does with the shared state. `@CELLS.register(name)` on a class adds one.

`step`, `num_gates` and `num_states` are enough. A cell that also has `num_kept`, `activate`, `propose` and
`gradient` trains faster (`models.kernels.scan`): there the G gates come one by one, each [P, M, h, B], and
what is expensive is computed once.
"""

from typing import Any

from keras import ops

from modtf.registry import Registry


def check_cell(name: str, cell: Any) -> None:
    """Raises `ValueError` where a cell lacks what a recurrence asks of it."""
    lacking = [needed for needed in ("num_gates", "num_states", "step") if not hasattr(cell, needed)]
    if lacking:
        raise ValueError(f"The recurrent cell {name!r} lacks {', '.join(lacking)}; see modtf.models.cells.")


CELLS: Registry[Any] = Registry("recurrent cell", check=check_cell)


@CELLS.register("lstm")
class LSTMCell:
    """Gates i, f, o and candidate g; the state is (h, c)."""

    num_gates, num_states, num_kept = 4, 2, 1

    @staticmethod
    def step(gates, state):
        """Gates [P, M, 4, h, B] and shared state (h, c), each [P, h, B] -> proposals, each [P, M, h, B]."""
        i, f, o, g = (gates[:, :, n] for n in range(4))
        cell = ops.sigmoid(f) * state[1][:, None] + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(cell), cell

    @staticmethod
    def activate(gates):
        """tanh of all gates [P, 4, M, h, B] in one pass: sigmoid(x) = (tanh(x / 2) + 1) / 2."""
        scale = ops.convert_to_tensor([0.5, 0.5, 0.5, 1.0], gates.dtype)
        return ops.tanh(gates * scale[:, None, None, None])

    @staticmethod
    def propose(activated, state, kept=None):
        """Activated gates, shared state and what an earlier call kept -> proposals, and what to keep."""
        i, f, o, g = LSTMCell._gates(activated)
        cell = f * state[1][:, None] + i * g
        (squashed,) = kept or (ops.tanh(cell),)
        return (o * squashed, cell), (squashed,)

    @staticmethod
    def gradient(activated, kept, state, upstream):
        """From the gradients of the proposals to those of the gates before `activate`, each [P, M, h, B],
        and of each shared state, module by module; None for one the proposals do not depend on."""
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
        """Gates [P, M, 1, h, B] and shared state (h,) -> proposals ([P, M, h, B],)."""
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
