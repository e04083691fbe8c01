"""Sums over an axis that is not the last, written for XLA to vectorise."""

import keras
from keras import ops

from modtf.models.kernels.by_device import by_device
from modtf.models.kernels.gradients import custom_gradient

LONGEST_SUM, PIECE = 16, 8  # XLA vectorises a sum over an outer axis only where it is about this short


@by_device(accelerator=lambda length, part, from_nothing=False: part(0, length))
def in_pieces(length, part, from_nothing=False):
    """Return the sum of part(start, size) over the whole length; on a CPU, a long sum is made in pieces that
    XLA vectorises.

    Args:
        length: how many terms there are, an int.
        part: from a start, which may be traced, and an int to the sum of so many terms, of one shape for all.
        from_nothing: the first piece is one of the loop, too, so that what it reads lies in memory. Otherwise
            XLA makes that in the piece, which is slow where much is read often.
    """
    if length <= LONGEST_SUM:
        return part(0, length)
    # three pieces or more: XLA would unroll a loop of a single turn, and fuse all into one slow sum
    size = next(n for n in range(PIECE, 0, -1) if length % n == 0)
    first = ops.zeros_like(part(0, size)) if from_nothing else part(0, size)
    begin = 0 if from_nothing else 1
    return ops.fori_loop(begin, length // size, lambda i, total: total + part(i * size, size), first)


def sum_of_products(a, b, product=ops.multiply, from_nothing=False):
    """sum_k product(a_k, b_k) over axis 1: [G, k, ...] -> [G, ...].

    Not differentiable where k is large: for use in gradients that are written out.

    Args:
        a, b: with k numbers in axis 1.
        product: of two pieces; it may add axes after axis 1.
        from_nothing: see `in_pieces`.
    """

    def part(start, size):
        return ops.sum(product(piece_of(a, 1, start, size), piece_of(b, 1, start, size)), axis=1)

    return in_pieces(a.shape[1], part, from_nothing)


def _wide(x):
    """At least float32, in which sums are safe."""
    return ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) == "bfloat16" else x


def piece_of(tensor, axis, start, size):
    """tensor[start : start + size] of one axis, [.., length, ..] -> [.., size, ..]; `start` may be traced."""
    if size == tensor.shape[axis]:
        return tensor
    begin, sizes = [0] * len(tensor.shape), list(ops.shape(tensor))
    begin[axis], sizes[axis] = start, size
    return ops.slice(tensor, begin, sizes)


@custom_gradient
def softmax(logits):
    """Softmax over axis 1 of [P, M, T], without the transposition a backend's own would make.

    The gradient is written out for its sum over many modules (see `sum_of_products`).
    """
    unnormalised = ops.exp(logits - ops.max(logits, axis=1, keepdims=True))
    shares = unnormalised / ops.sum(unnormalised, axis=1, keepdims=True)

    def gradient(*args, upstream=None):
        return softmax_gradient(shares, args[0] if upstream is None else upstream)

    return shares, gradient


def softmax_gradient(shares, upstream):
    """From the gradient of softmax's result, `shares`, to that of its logits; all [P, M, T]."""
    return shares * (upstream - sum_of_products(upstream, shares)[:, None])


@custom_gradient
def weigh(h, weight):
    """Numbers h [G, k, T] times their weights [G, T]."""

    def gradient(*args, upstream=None):
        given = args[0] if upstream is None else upstream
        return given * weight[:, None], ops.cast(sum_of_products(_wide(given), _wide(h)), h.dtype)

    return h * weight[:, None], gradient
