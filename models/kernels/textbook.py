"""The plain form of every kernel. It is the oracle of the tests and a good start for reading.

Arguments and results are the same. The backend derives the gradients, and everything is in memory at once.
"""

import math

from keras import ops


def softmax(logits):
    """Return the softmax over axis 1 of [P, M, T]."""
    return ops.softmax(logits, axis=1)


def weigh(h, weight):
    """Multiply numbers h [G, k, T] by their weights [G, T]."""
    return h * weight[:, None]


def mixture(kernel, bias, h, activation):
    """Return sum_m p_m (W_m h_m + b_m), module by module.

    Args:
        kernel, bias: [P, outputs, M * k] and [P, outputs, M].
        h: [P, M * k, T].
        activation: p [P, M, T].

    Returns:
        [P, outputs, T].
    """
    members, modules, tokens = activation.shape
    kernels = ops.reshape(kernel, [members, kernel.shape[1], modules, -1])
    answers = ops.einsum("pomk,pmkt->pmot", kernels, ops.reshape(h, [members, modules, -1, tokens]))
    answers = answers + ops.transpose(bias, [0, 2, 1])[..., None]
    return ops.sum(activation[:, :, None] * answers, axis=1)


def attend(query, key, value):
    """Return the attention of every token to the others, each [G, k, N, B]."""
    itself = ops.eye(query.shape[2], dtype=query.dtype)
    scores = ops.einsum("gknb,gkmb->gbnm", query, key) / math.sqrt(query.shape[1]) - 1e9 * itself
    return ops.einsum("gbnm,gkmb->gknb", ops.softmax(scores), value)


def scan(cell, layout, route, tokens, routing, score, *kernels):
    """Run `modtf.models.kernels.scan.Scan` as a loop over tokens of a cell's `step`."""
    by_module = [layout.members, layout.modules, layout.gates, layout.width, layout.batch]
    states = layout.zeros(layout.states, *layout.by_state)
    hidden, activations = [], []
    for n in range(layout.num_tokens):
        inputs, p = ops.concatenate([tokens[n], states[0]], axis=1), routing[n]
        products = [
            ops.reshape(ops.matmul(kernel, inputs[:, rows]), layout.by_gate)
            for kernel, rows in zip(kernels, layout.reads, strict=True)
        ]
        if layout.scored:
            weighted = sum(ops.relu(product) * score[s] for s, product in enumerate(products))
            p = route(routing[n], ops.sum(weighted, axis=(1, 3)))
        gates = ops.reshape(ops.transpose(sum(products), [0, 2, 1, 3, 4]), by_module)
        proposals = cell.step(gates, states)
        states = [ops.sum(p[:, :, None] * proposal, axis=1) for proposal in proposals]
        hidden.append(states[0])
        activations.append(p)
    return ops.stack(hidden), ops.stack(activations)
