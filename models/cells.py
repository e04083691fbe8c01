"""Recurrent cells: what each module does with the shared state. One class and one line adds a cell."""

from keras import ops

from modtf.registry import Registry


class LSTMCell:
    """Gates i, f, o and candidate g; the state is (h, c)."""

    num_gates, num_states = 4, 2

    @staticmethod
    def activate(gates):
        scale = ops.reshape(ops.convert_to_tensor([0.5, 0.5, 0.5, 1.0], gates.dtype), [4, 1, 1, 1])
        return ops.tanh(gates * scale)

    @staticmethod
    def propose(gates, state):
        i, f, o, g = (0.5 * gates[n] + 0.5 if n < 3 else gates[3] for n in range(4))
        cell = f * state[1][:, None] + i * g
        t = ops.tanh(cell)
        return t, (o * t, cell)

    @staticmethod
    def propose2(gates, state, t):
        i, f, o, g = (0.5 * gates[n] + 0.5 if n < 3 else gates[3] for n in range(4))
        cell = f * state[1][:, None] + i * g
        return o * t, cell

    @staticmethod
    def gradient(gates, t, state, upstream):
        i, f, o, g = (0.5 * gates[n] + 0.5 if n < 3 else gates[3] for n in range(4))
        before = state[1][:, None]
        d_h, d_c = upstream
        d_c = d_c + d_h * o * (1 - t * t)
        return (
            d_c * g * i * (1 - i), d_c * before * f * (1 - f), d_h * t * o * (1 - o), d_c * i * (1 - g * g)
        ), (d_c * f,)


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
