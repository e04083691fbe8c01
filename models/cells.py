"""Recurrent cells: what each module does with the shared state. One class and one line adds a cell."""

from keras import ops

from modtf.registry import Registry


class LSTMCell:
    """Gates i, f, o and candidate g; the state is (h, c)."""

    num_gates, num_states = 4, 2

    @staticmethod
    def step(gates, state):
        """Gates [P, M, 4, h, B] and shared state (h, c), each [P, h, B] -> proposals, each [P, M, h, B]."""
        i, f, o, g = (gates[:, :, n] for n in range(4))
        cell = ops.sigmoid(f) * state[1][:, None] + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(cell), cell


class SimpleCell:
    """tanh(W x + U h); the state is h."""

    num_gates, num_states = 1, 1

    @staticmethod
    def step(gates, state):
        """Gates [P, M, 1, h, B] and shared state (h,) -> proposals ([P, M, h, B],)."""
        return (ops.tanh(gates[:, :, 0]),)


CELLS: Registry = Registry(
    "recurrent cell", {"lstm": "modtf.models.cells:LSTMCell", "simple": "modtf.models.cells:SimpleCell"}
)
