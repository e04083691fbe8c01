"""Sums over an axis that is not the last, written for XLA to vectorise."""

import keras
from keras import ops

from modtf.models.kernels.by_device import by_device
from modtf.models.kernels.gradients import custom_gradient

LONGEST_SUM, PIECE = 16, 8  # XLA vectorises a sum over an outer axis only up to about this length


@by_device(accelerator=lambda length, part, from_nothing=False: part(0, length))
def in_pieces(length, part, from_nothing=False):
    """Return the sum of part(start, size) over the whole length. On a CPU, a long sum is made in pieces that
    XLA vectorises.

    Args:
        length: the number of terms, an int.
        part: maps a start, which may be traced, and an int size to the sum of that many terms. All sums have
            one shape.
        from_nothing: whether the first piece is part of the loop, too. Its inputs are then in memory.
            Otherwise XLA computes them inside the piece, which is slow if they are read often.
    """
    if length <= LONGEST_SUM:
        return part(0, length)
    # At least three pieces: XLA would unroll a loop of one iteration and fuse everything into one slow sum.
    size = next(n for n in range(PIECE, 0, -1) if length % n == 0)
    first = ops.zeros_like(part(0, size)) if from_nothing else part(0, size)
    begin = 0 if from_nothing else 1
    return ops.fori_loop(begin, length // size, lambda i, total: total + part(i * size, size), first)


def sum_of_products(a, b, product=ops.multiply, from_nothing=False):
    """Return sum_k product(a_k, b_k) over axis 1: [G, k, ...] -> [G, ...].

    It is not differentiable if k is large; use it in gradients that are written out.

    Args:
        a, b: tensors with k numbers in axis 1.
        product: the product of two pieces; it may add axes after axis 1.
        from_nothing: see `in_pieces`.
    """

    def part(start, size):
        return ops.sum(product(piece_of(a, 1, start, size), piece_of(b, 1, start, size)), axis=1)

    return in_pieces(a.shape[1], part, from_nothing)


def _wide(x):
    """Return at least float32, which is precise enough for sums."""
    return ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) == "bfloat16" else x


def piece_of(tensor, axis, start, size):
    """Return tensor[start : start + size] of one axis, [.., length, ..] -> [.., size, ..]. `start` may be
    traced."""
    if size == tensor.shape[axis]:
        return tensor
    begin, sizes = [0] * len(tensor.shape), list(ops.shape(tensor))
    begin[axis], sizes[axis] = start, size
    return ops.slice(tensor, begin, sizes)


@custom_gradient
def softmax(logits):
    """Return the softmax over axis 1 of [P, M, T], without the transposition of a backend's own softmax.

    The gradient is written out because of its sum over many modules (see `sum_of_products`).
    """
    unnormalised = ops.exp(logits - ops.max(logits, axis=1, keepdims=True))
    shares = unnormalised / ops.sum(unnormalised, axis=1, keepdims=True)

    def gradient(*args, upstream=None):
        of_shares = args[0] if upstream is None else upstream
        return shares * (of_shares - sum_of_products(of_shares, shares)[:, None])

    return shares, gradient


@custom_gradient
def weigh(h, weight):
    """Multiply numbers h [G, k, T] by their weights [G, T]."""

    def gradient(*args, upstream=None):
        of_output = args[0] if upstream is None else upstream
        return of_output * weight[:, None], ops.cast(sum_of_products(_wide(of_output), _wide(h)), h.dtype)

    return h * weight[:, None], gradient


def largest(scores, count: int = 1):
    """Return 1 for each module among the `count` largest scores, else 0. Ties go to the first module.

    It has no gradient.

    Args:
        scores: [P, M, T].
        count: at least 1 and at most M.
    """
    scores, modules = ops.stop_gradient(scores), scores.shape[1]
    chosen = ops.zeros_like(scores)
    for _ in range(count):
        left = ops.where(chosen > 0, -float("inf"), scores)
        chosen = chosen + ops.one_hot(ops.argmax(left, axis=1), modules, axis=1, dtype=scores.dtype)
    return chosen


def softmax_among(chosen, scores):
    """Return the softmax over the scores of the chosen modules, and 0 for the others. All are [P, M, T]."""
    return softmax(ops.where(chosen > 0, scores, -float("inf")))


def underused(activation, dtype):
    """Return [P, M, 1]: 1 for modules with fewer tokens than average in activation [P, M, T], -1 for more."""
    load = ops.mean(ops.cast(activation > 0, dtype), axis=2, keepdims=True)
    return ops.sign(ops.mean(load, axis=1, keepdims=True) - load)
