"""Softmax attention among few tokens in narrow heads, written for the batch as the innermost axis.

Products and sums of broadcast tensors: heads are too narrow (2 to 128) and sequences too short for matrix
products, which cost several times more here. The gradient is written out because XLA's sums over wide heads
are slow in the one TensorFlow derives: a training step at R=2, e=32 would take a third longer.
"""

from keras import ops

from modtf.models.layers import Dense

LONGEST_SUM = 16  # XLA vectorises a sum over an outer axis only where it is about this short


def project(layer: Dense, x, head_shape, scale=1.0):
    """scale (W x + b), cut into heads of shape (k, N, B): [P, inputs, T] -> [P * heads, k, N, B].

    The members are merged where the bias is added, and only there: its gradient then reads the sum that
    is the gradient of a head in another shape than the kernel's does, so XLA computes that sum by itself
    and not inside a reshape, where it takes many times as long.
    """
    width = layer.num_members * layer.kernel.shape[1]
    y = ops.reshape(ops.matmul(layer.kernel * scale, x), [1, width, -1])
    y = y + ops.reshape(layer.bias * scale, [1, width, 1])
    return ops.reshape(y, [width // head_shape[0], *head_shape])


@ops.custom_gradient
def attend(query, key, value):
    """Attention of every token to the others, never to itself.

    Args:
        query: [G, k, N, B], already divided by sqrt(k); G counts the heads of all members.
        key, value: [G, k, N, B].

    Returns:
        [G, k, N, B].
    """
    num_tokens = query.shape[2]
    itself = ops.eye(num_tokens, dtype=query.dtype)[:, :, None]
    scores = sum_of_products(query[:, :, :, None], key[:, :, None]) - 1e9 * itself  # [G, N, N, B]
    weights = ops.exp(scores - ops.max(scores, axis=2, keepdims=True))
    total = ops.sum(weights, axis=2)[:, None]
    attended = ops.sum(weights[:, None] * value[:, :, None], axis=3) / total

    def gradient(*args, upstream=None):
        given = (args[0] if upstream is None else upstream) / total
        along = ops.sum(given * attended, axis=1)[:, :, None]
        of_scores = weights * (sum_of_products(given[:, :, :, None], value[:, :, None]) - along)
        return (
            ops.sum(of_scores[:, None] * key[:, :, None], axis=3),
            ops.sum(of_scores[:, None] * query[:, :, :, None], axis=2),
            ops.sum(weights[:, None] * given[:, :, :, None], axis=2),
        )

    return attended, gradient


def sum_of_products(a, b):
    """sum_k a_k b_k over axis 1, in pieces that XLA vectorises: [G, k, ...] -> [G, ...]."""
    width = a.shape[1]
    piece = next(n for n in range(min(width, LONGEST_SUM), 0, -1) if width % n == 0)
    if piece == width:
        return ops.sum(a * b, axis=1)

    def add(i, total):
        return total + ops.sum(_rows(a, i * piece, piece) * _rows(b, i * piece, piece), axis=1)

    return ops.fori_loop(1, width // piece, add, add(0, 0.0))


def _rows(tensor, start, size):
    """tensor[:, start : start + size], where `start` may be traced."""
    groups, _, *rest = tensor.shape
    return ops.slice(tensor, [0, start, *[0] * len(rest)], [groups, size, *rest])
