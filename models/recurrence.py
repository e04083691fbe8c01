"""prototype"""

from typing import Any

import keras
from keras import ops

from modtf.models.initial import InitialWeights
from modtf.models.layers import Dense, MemberLayer
from modtf.models.routers.base import Router




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


def lane_sums(a):
    lanes = 16
    if a.shape[-1] is None or a.shape[-1] % lanes:
        return ops.sum(a, axis=-1, keepdims=True)
    k = a.shape[-1] // lanes
    MODE = __import__("os").environ.get("MODE", "tree")
    if MODE == "reduce":
        return ops.sum(ops.reshape(a, [*a.shape[:-1], k, lanes]), axis=-2)
    while a.shape[-1] % 2 == 0 and a.shape[-1] > lanes:
        half = a.shape[-1] // 2
        a = a[..., :half] + a[..., half:]
    return a


MODE2 = __import__('os').environ.get('MODE2')


class StateScore(MemberLayer):
    def __init__(self, initial: InitialWeights, modules: int, inputs: int, name: str, dtype: Any = None):
        super().__init__(initial, name, dtype)
        self.kernel = self.uniform("kernel", [2, modules, inputs, 1], 2 * inputs)


def get(of_tokens, n):
    """[N, ...] -> [...]"""
    shape = list(ops.shape(of_tokens))
    return ops.slice(of_tokens, [n] + [0] * (len(shape) - 1), [1, *shape[1:]])[0]


def put(of_tokens, n, value):
    return ops.slice_update(of_tokens, [n] + [0] * (len(of_tokens.shape) - 1), value[None])


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

        scored = self.router.needs_scores
        e = encoded.shape[1]
        x_all = ops.transpose(ops.reshape(encoded, [P, e, num_tokens, batch]), [2, 0, 1, 3])
        kernel = ops.concatenate([from_input.kernel, self.from_state.kernel], axis=2)
        if from_input.bias is not None:
            x_all = ops.concatenate([ops.ones_like(x_all[:, :, :1]), x_all], axis=2)
            kernel = ops.concatenate([from_input.bias + self.from_state.bias, kernel], axis=2)
        inputs = x_all.shape[2]
        kernel = gate_major(kernel)
        if scored:
            p_in = ops.zeros([num_tokens, P, M, batch], x_all.dtype)
            w_score = ops.transpose(ops.reshape(self.score.kernel, [P, 2, M, G, h, 1]), [1, 0, 3, 2, 4, 5])
        else:
            p_in = ops.transpose(ops.reshape(activation, [P, M, num_tokens, batch]), [2, 0, 1, 3])
            w_score = ops.zeros([1], x_all.dtype)
        segments = ops.repeat(ops.eye(M, dtype=x_all.dtype), h, axis=1)

        def sum_width(a):
            """[P, M, h, B] -> [P, M, B]"""
            return ops.matmul(segments, ops.reshape(a, [P, M * h, batch]))

        def sum_modules(scratch, n, values):
            if MODE2 == "2":
                return scratch, tuple(sum_axis(v, 1) for v in values)
            scratch = tuple(put(s, n % 2, v) for s, v in zip(scratch, values, strict=True))
            return scratch, tuple(sum_axis(get(s, n % 2), 1) for s in scratch)

        @ops.custom_gradient
        def run(x_all, kernel, p_in, w_score):
            gate_shape = [P, G, M, h, batch]

            def forward(n, val):
                gates_all, t_all, xh_all, rest_all, p_all, parts_all, scratch, states = val
                x = get(x_all, n)
                xh = ops.concatenate([x, states[0]], axis=1)
                xh_all = put(xh_all, n, xh)
                if scored:
                    parts = (
                        ops.reshape(ops.matmul(kernel[:, :, :inputs], x), gate_shape),
                        ops.reshape(ops.matmul(kernel[:, :, inputs:], states[0]), gate_shape),
                    )
                    parts_all = tuple(put(a, n, b) for a, b in zip(parts_all, parts, strict=True))
                    pre = parts[0] + parts[1]
                    scores = sum_width(
                        ops.sum(ops.relu(parts[0]) * w_score[0] + ops.relu(parts[1]) * w_score[1], axis=1)
                    )
                    p = self.router(scores=scores)
                    p_all = put(p_all, n, p)
                else:
                    pre = ops.reshape(ops.matmul(kernel, xh), gate_shape)
                    p = get(p_all, n)
                gates = cell.activate(pre)
                if not scored:
                    gates_all = put(gates_all, n, gates)
                rest_all = tuple(put(a, n, s) for a, s in zip(rest_all, states[1:], strict=True))
                t, proposals = cell.propose([gates[:, k] for k in range(G)], states)
                t_all = put(t_all, n, t)
                if M == 1:
                    states = tuple(q[:, 0] for q in proposals)
                else:
                    scratch, states = sum_modules(scratch, n, [p[:, :, None] * q for q in proposals])
                return gates_all, t_all, xh_all, rest_all, p_all, parts_all, scratch, states

            def zeros(*shape):
                return ops.zeros(shape, x_all.dtype)

            rest = tuple(zeros(num_tokens, P, h, batch) for _ in range(cell.num_states - 1))
            start = tuple(zeros(P, h, batch) for _ in range(cell.num_states))
            parts = tuple(zeros(num_tokens, *gate_shape) for _ in range(2)) if scored else ()
            gates_all, t_all, xh_all, rest_all, p_all, parts_all, _, last = ops.fori_loop(
                0,
                num_tokens,
                forward,
                (
                    zeros(1) if scored else zeros(num_tokens, *gate_shape),
                    zeros(num_tokens, P, M, h, batch),
                    zeros(num_tokens, P, inputs + h, batch),
                    rest,
                    p_in,
                    parts,
                    tuple(zeros(2, P, M, h, batch) for _ in start) if M > 1 else (),
                    start,
                ),
            )
            hidden = ops.concatenate([xh_all[1:, :, inputs:], last[0][None]], axis=0)

            def gradient(*args, upstream=None):
                up_h, up_p = args if upstream is None else upstream
                flipped = ops.transpose(kernel, [0, 2, 1])

                def backward(i, val):
                    d_x, d_p_in, d_kernel, d_score, d_rec, scratch, d_states = val
                    n = num_tokens - 1 - i
                    t = get(t_all, n)
                    if scored:
                        gates = cell.activate(get(parts_all[0], n) + get(parts_all[1], n))
                        gates = [gates[:, k] for k in range(G)]
                    else:
                        gates = [ops.slice(gates_all, [n, 0, k, 0, 0, 0], [1, P, 1, M, h, batch])[0, :, 0] for k in range(G)]
                    p, xh = get(p_all, n), get(xh_all, n)
                    states = (xh[:, inputs:], *(get(b, n) for b in rest_all))
                    d_states = (d_states[0] + get(up_h, n), *d_states[1:])
                    proposals = cell.propose2(gates, states, t)
                    if M > 1:
                        d_p = sum_width(sum(d[:, None] * q for d, q in zip(d_states, proposals, strict=True)))
                        d_prop = tuple(p[:, :, None] * d[:, None] for d in d_states)
                    else:
                        d_p = ops.zeros_like(p)
                        d_prop = tuple(d[:, None] for d in d_states)
                    d_gates, d_prev = cell.gradient(gates, t, states, d_prop)
                    if M == 1:
                        d_prev = [d[:, 0] for d in d_prev]
                    else:
                        scratch, d_prev = sum_modules(scratch, n, d_prev)
                    d_p = d_p + get(up_p, n)
                    if scored:
                        d_scores = (p * (d_p - ops.sum(p * d_p, axis=1, keepdims=True)))[:, None, :, None]
                        parts = [get(a, n) for a in parts_all]
                    else:
                        d_p_in = put(d_p_in, n, d_p)
                    for k in range(G):
                        d_rec = ops.slice_update(d_rec, [0, k, 0, 0, 0], d_gates[k][:, None])
                    if scored:
                        flat = [
                            ops.reshape(
                                d_rec + ops.where(part > 0, d_scores * w, 0.0), [P, M * G * h, batch]
                            )
                            for part, w in zip(parts, (w_score[0], w_score[1]), strict=True)
                        ]
                        d_score = tuple(
                            d + lane_sums(d_scores * ops.relu(part))
                            for d, part in zip(d_score, parts, strict=True)
                        )
                        pieces = (slice(0, inputs), slice(inputs, None))
                        d_xh = [ops.matmul(flipped[:, s], f) for s, f in zip(pieces, flat, strict=True)]
                        d_kernel = tuple(
                            d + ops.matmul(f, ops.transpose(xh[:, s], [0, 2, 1]))
                            for d, s, f in zip(d_kernel, pieces, flat, strict=True)
                        )
                    else:
                        flat = ops.reshape(d_rec, [P, M * G * h, batch])
                        d_xh = ops.matmul(flipped, flat)
                        d_xh = d_xh[:, :inputs], d_xh[:, inputs:]
                        d_kernel = (d_kernel[0] + ops.matmul(flat, ops.transpose(xh, [0, 2, 1])),)
                    d_x = put(d_x, n, d_xh[0])
                    return d_x, d_p_in, d_kernel, d_score, d_rec, scratch, (d_xh[1], *d_prev)

                d_rec = zeros(*gate_shape)
                d_x, d_p, d_kernel, d_score, _, _, _ = ops.fori_loop(
                    0,
                    num_tokens,
                    backward,
                    (
                        ops.zeros_like(x_all),
                        ops.zeros_like(p_in),
                        (zeros(P, G * M * h, inputs), zeros(P, G * M * h, h)) if scored else (ops.zeros_like(kernel),),
                        (ops.zeros_like(lane_sums(zeros(*gate_shape))),) * 2 if scored else (),
                        d_rec,
                        tuple(zeros(2, P, M, h, batch) for _ in rest) if M > 1 else (),
                        start,
                    ),
                )
                d_kernel = ops.concatenate(d_kernel, axis=2) if scored else d_kernel[0]
                return d_x, d_kernel, d_p, ops.sum(ops.stack(d_score), axis=-1, keepdims=True) if scored else ops.zeros_like(w_score)

            return (hidden, p_all), gradient

        hidden, p_all = run(x_all, kernel, p_in, w_score)
        return ops.transpose(hidden, [1, 2, 0, 3]), ops.transpose(p_all, [1, 2, 0, 3])
