"""Softmax attention among few tokens in narrow heads, written for the batch as the innermost axis.

It uses products and sums of broadcast tensors. Heads are too narrow (2 to 128) and sequences too short for
matrix products, which cost several times more here. The gradient is written out, because XLA is slow at the
sums over wide heads in TensorFlow's own: a training step at R=2, e=32 would take a third longer.

The form of each expression decides what XLA keeps in memory, and so the speed on a CPU. XLA fuses a product
with the sum or maximum over it, so the scaling is the scores' last operation. XLA never repeats a division,
so the gradient of the scores, which is read once per unit of a head, ends in a division.
"""

import math

from keras import ops

from modtf.models.kernels.gradients import custom_gradient
from modtf.models.kernels.sums import in_pieces, piece_of, sum_of_products


def project(kernel, bias, x, head_shape):
    """Return W x + b, cut into heads of shape (k, N, B): [P, inputs, T] -> [P * heads, k, N, B].

    The members are merged only where the bias is added. The sum in the bias's gradient then reads the heads'
    gradient in another shape than the kernel's gradient does. XLA therefore computes that sum by itself, and
    not inside a reshape, where it takes many times as long.

    Args:
        kernel, bias: W [P, heads * k, inputs] and b [P, heads * k, 1].
        x: [P, inputs, T], T = N x B.
        head_shape: (k, N, B).
    """
    width = kernel.shape[0] * kernel.shape[1]
    y = ops.reshape(ops.matmul(kernel, x), [1, width, -1])
    y = y + ops.reshape(bias, [1, width, 1])
    return ops.reshape(y, [width // head_shape[0], *head_shape])


@custom_gradient
def attend(query, key, value):
    """Return the attention of every token to the others, never to itself. Scores are divided by sqrt(k).

    Args:
        query, key, value: [G, k, N, B]; G counts the heads of all members.

    Returns:
        [G, k, N, B].
    """
    scale = 1 / math.sqrt(query.shape[1])
    itself = 1e9 * ops.eye(query.shape[2], dtype=query.dtype)[:, :, None]
    scores = (sum_of_products(query, key, every_pair, from_nothing=True) - itself) * scale  # [G, N, N, B]
    weights = ops.exp(scores - ops.max(scores, axis=2, keepdims=True))
    total = ops.sum(weights, axis=2)[:, None]

    def of_keys(start, size):
        weight, of_them = (piece_of(x, 2, start, size) for x in (weights, value))
        return ops.sum(weight[:, None] * of_them[:, :, None], axis=3)

    attended = in_pieces(value.shape[2], of_keys) / total

    def gradient(*args, upstream=None):
        root = ops.sqrt(total)  # half of the division here, half below: XLA keeps both results in memory
        of_output = (args[0] if upstream is None else upstream) / root
        along = ops.sum(of_output * attended, axis=1)[:, :, None]
        of_weights = sum_of_products(of_output, value, every_pair) - along
        of_scores = weights * of_weights / (root[:, 0, :, None] / scale)
        of_output = of_output / root
        return (
            ops.sum(of_scores[:, None] * key[:, :, None], axis=3),
            ops.sum(of_scores[:, None] * query[:, :, :, None], axis=2),
            ops.sum(weights[:, None] * of_output[:, :, :, None], axis=2),
        )

    return attended, gradient


def every_pair(a, b):
    """Multiply a_n b_i for all tokens n and i: two tensors [G, k, N, B] -> [G, k, N, N, B]."""
    return a[:, :, :, None] * b[:, :, None]
