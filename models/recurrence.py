"""prototype"""

from typing import Any

import keras
from keras import ops

from modtf.models.initial import InitialWeights
from modtf.models.layers import Dense, MemberLayer
from modtf.models.routers.base import Router

PIECE = 16


def sum_axis(x, axis):
    size = x.shape[axis]
    if size <= PIECE:
        return ops.sum(x, axis=axis)
    n = -(-size // PIECE)
    per = -(-size // n)
    index = [slice(None)] * axis
    return sum(ops.sum(x[(*index, slice(i, min(i + per, size)))], axis=axis) for i in range(0, size, per))


class StateScore(MemberLayer):
    def __init__(self, initial: InitialWeights, modules: int, inputs: int, name: str, dtype: Any = None):
        super().__init__(initial, name, dtype)
        self.kernel = self.uniform("kernel", [2, modules, inputs, 1], 2 * inputs)


def get(all_tokens, n):
    """[P, ..., N, B] -> [P, ..., B]"""
    shape = list(ops.shape(all_tokens))
    out = ops.slice(all_tokens, [0] * (len(shape) - 2) + [n, 0], [*shape[:-2], 1, shape[-1]])
    return out[..., 0, :]


def put(all_tokens, n, value):
    return ops.slice_update(all_tokens, [0] * (len(all_tokens.shape) - 2) + [n, 0], value[..., None, :])


class SharedState(keras.layers.Layer):
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

    def recur(self, driven, activation, num_tokens, batch):
        """driven [P, M*G*h, N*B], activation p [P, M, N*B] or None."""
        P, M, G, h = self.members, self.modules, self.cell.num_gates, self.width
        cell = self.cell
        if self.from_state.bias is not None:
            driven = driven + self.from_state.bias
        driven = ops.reshape(driven, [P, M, G, h, num_tokens, batch])
        scored = self.router.needs_scores
        U = ops.convert_to_tensor(self.from_state.kernel)
        if scored:
            w = ops.convert_to_tensor(self.score.kernel)  # [P,2,M,G*h,1]
            wx = ops.reshape(w[:, 0], [P, M, G, h, 1, 1])
            x_ = ops.relu(driven) * wx
            p_in = sum(sum_axis(x_[:, :, k], 2) for k in range(G))  # [P,M,N,B]
            wu = ops.reshape(w[:, 1], [P, M, G, h])
        else:
            p_in = ops.reshape(activation, [P, M, num_tokens, batch])
            wu = ops.zeros([1, 1, 1, 1], driven.dtype)

        def score(rec, wu):
            x_ = ops.relu(rec) * wu[..., None]
            return sum(sum_axis(x_[:, :, k], 2) for k in range(G))

        @ops.custom_gradient
        def run(driven, U, p_in, wu):
            def forward(n, val):
                gates_all, states_all, p_all, states = val
                rec = ops.reshape(ops.matmul(U, states[0]), [P, M, G, h, batch])
                p = get(p_in, n)
                if scored:
                    p = self.router(scores=p + score(rec, wu))
                    p_all = put(p_all, n, p)
                gates = cell.activate(get(driven, n) + rec)
                gates_all = put(gates_all, n, gates)
                states_all = tuple(put(a, n, s) for a, s in zip(states_all, states, strict=True))
                proposals = cell.propose(gates, states)
                if M == 1:
                    states = tuple(q[:, 0] for q in proposals)
                else:
                    states = tuple(sum_axis(p[:, :, None] * q, 1) for q in proposals)
                return gates_all, states_all, p_all, states

            zeros = tuple(ops.zeros([P, h, num_tokens, batch], driven.dtype) for _ in range(cell.num_states))
            start = tuple(ops.zeros([P, h, batch], driven.dtype) for _ in range(cell.num_states))
            p0 = ops.zeros([P, M, num_tokens, batch], driven.dtype) if scored else p_in
            gates_all, before, p_all, last = ops.fori_loop(
                0, num_tokens, forward, (ops.zeros_like(driven), zeros, p0, start)
            )
            hidden = ops.concatenate([before[0][:, :, 1:], last[0][:, :, None]], axis=2)

            def gradient(*args, upstream=None):
                up_h, up_p = args if upstream is None else upstream

                def backward(i, val):
                    d_driven, d_p_in, d_wu, d_states = val
                    n = num_tokens - 1 - i
                    gates, p = get(gates_all, n), get(p_all, n)
                    states = tuple(get(b, n) for b in before)
                    d_states = (d_states[0] + get(up_h, n), *d_states[1:])
                    proposals = cell.propose(gates, states)
                    if M > 1:
                        d_p = sum(
                            sum_axis(d[:, None] * q, 2) for d, q in zip(d_states, proposals, strict=True)
                        )
                        d_prop = tuple(p[:, :, None] * d[:, None] for d in d_states)
                    else:
                        d_p = ops.zeros_like(p)
                        d_prop = tuple(d[:, None] for d in d_states)
                    d_gates, d_prev = cell.gradient(gates, states, d_prop)
                    if not scored:
                        d_p_in = put(d_p_in, n, d_p)
                    temp = ops.zeros([P, M, G, h, batch], driven.dtype)
                    for k in range(G):
                        d_driven = ops.slice_update(d_driven, [0, 0, k, 0, n, 0], d_gates[k][:, :, None, :, None])
                        temp = ops.slice_update(temp, [0, 0, k, 0, 0], d_gates[k][:, :, None])
                    d_rec = temp
                    d_h = ops.matmul(ops.transpose(U, [0, 2, 1]), ops.reshape(d_rec, [P, M * G * h, batch]))
                    d_prev = [sum_axis(d, 1) for d in d_prev]
                    return d_driven, d_p_in, d_wu, (d_h, *d_prev)

                d_driven, d_p_in, d_wu, _ = ops.fori_loop(
                    0, num_tokens, backward, (ops.zeros_like(driven), ops.zeros_like(p_in), ops.zeros_like(wu), start)
                )
                d_U = ops.matmul(
                    ops.reshape(d_driven, [P, M * G * h, -1]),
                    ops.transpose(ops.reshape(before[0], [P, h, -1]), [0, 2, 1]),
                )
                return d_driven, d_U, d_p_in, d_wu

            return (hidden, p_all), gradient

        return run(driven, U, p_in, wu)
