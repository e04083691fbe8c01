"""prototype"""

from typing import Any

import keras
from keras import ops

from modtf.models.initial import InitialWeights
from modtf.models.layers import Dense, MemberLayer
from modtf.models.routers.base import Router

PIECE = 16


def sum_axis(x, axis):
    """tree"""
    index = [slice(None)] * axis
    rest = None
    size = x.shape[axis]
    while size > 1:
        half = size // 2
        if size % 2:
            last = x[(*index, slice(size - 1, size))]
            rest = last if rest is None else rest + last
        x = x[(*index, slice(0, half))] + x[(*index, slice(half, 2 * half))]
        size = half
    x = x if rest is None else x + rest
    return ops.squeeze(x, axis)


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

    def recur(self, encoded, from_input, activation, num_tokens, batch):
        """driven [P, M*G*h, N*B], activation p [P, M, N*B] or None."""
        P, M, G, h = self.members, self.modules, self.cell.num_gates, self.width
        cell = self.cell
        def gate_major(weight):
            """[P, M*G*h, k] -> [P, G*M*h, k]"""
            k = weight.shape[-1]
            w = ops.reshape(weight, [P, M, G, h, k])
            return ops.reshape(ops.transpose(w, [0, 2, 1, 3, 4]), [P, G * M * h, k])

        kernel, bias = gate_major(from_input.kernel), from_input.bias
        driven = ops.matmul(kernel, encoded)
        if bias is not None:
            driven = driven + gate_major(bias + self.from_state.bias)
        driven = ops.reshape(driven, [P, G, M, h, num_tokens, batch])
        scored = self.router.needs_scores
        U = gate_major(self.from_state.kernel)
        if scored:
            w = ops.reshape(self.score.kernel, [P, 2, M, G, h])  # [P,2,M,G*h,1]
            w = ops.transpose(w, [0, 1, 3, 2, 4])
            x_ = ops.relu(driven) * w[:, 0][..., None, None]
            p_in = sum_axis(ops.sum(x_, axis=1), 2)  # [P,M,N,B]
            wu = w[:, 1]
        else:
            p_in = ops.reshape(activation, [P, M, num_tokens, batch])
            wu = ops.zeros([1, 1, 1, 1], driven.dtype)

        def score(rec, wu):
            return sum_axis(ops.sum(ops.relu(rec) * wu[..., None], axis=1), 2)

        @ops.custom_gradient
        def run(driven, U, p_in, wu):
            def forward(n, val):
                gates_all, states_all, p_all, states = val
                rec = ops.reshape(ops.matmul(U, states[0]), [P, G, M, h, batch])
                p = get(p_in, n)
                if scored:
                    p = self.router(scores=p + score(rec, wu))
                    p_all = put(p_all, n, p)
                gates_all = put(gates_all, n, cell.activate(get(driven if scored else gates_all, n) + rec))
                gates = get(gates_all, n)
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
                0, num_tokens, forward, (ops.zeros_like(driven) if scored else driven, zeros, p0, start)
            )
            hidden = ops.concatenate([before[0][:, :, 1:], last[0][:, :, None]], axis=2)

            def gradient(*args, upstream=None):
                up_h, up_p = args if upstream is None else upstream

                def backward(i, val):
                    d_driven, d_p_in, d_wu, d_rec, d_states = val
                    n = num_tokens - 1 - i
                    gates, p = get(d_driven, n), get(p_all, n)
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
                    d_prev = [sum_axis(d, 1) for d in d_prev]
                    if not scored:
                        d_p_in = put(d_p_in, n, d_p)
                    for k in range(G):
                        d_rec = ops.slice_update(d_rec, [0, k, 0, 0, 0], d_gates[k][:, None])
                    d_driven = put(d_driven, n, d_rec)
                    d_h = ops.matmul(ops.transpose(U, [0, 2, 1]), ops.reshape(d_rec, [P, M * G * h, batch]))
                    return d_driven, d_p_in, d_wu, d_rec, (d_h, *d_prev)

                d_rec = ops.zeros([P, G, M, h, batch], driven.dtype)
                d_driven, d_p_in, d_wu, _, _ = ops.fori_loop(
                    0, num_tokens, backward, (gates_all, ops.zeros_like(p_in), ops.zeros_like(wu), d_rec, start)
                )
                d_U = ops.matmul(
                    ops.reshape(d_driven, [P, M * G * h, -1]),
                    ops.transpose(ops.reshape(before[0], [P, h, -1]), [0, 2, 1]),
                )
                return d_driven, d_U, d_p_in, d_wu

            return (hidden, p_all), gradient

        return run(driven, U, p_in, wu)
