"""Sums over an axis that is not the last, written for XLA to vectorise."""

import keras
from keras import ops

from modtf.models.kernels.by_device import by_device
from modtf.models.kernels.gradients import custom_gradient

LONGEST_SUM, PIECE = 16, 8  # XLA vectorises a sum over an outer axis only where it is about this short


def _one_sum(a, b, product=ops.multiply):
    return ops.sum(product(a, b), axis=1)


@by_device(accelerator=_one_sum)
def sum_of_products(a, b, product=ops.multiply):
    """sum_k product(a_k, b_k) over axis 1: [G, k, ...] -> [G, ...]; on a CPU in pieces that XLA vectorises.

    Not differentiable where k is large: for use in gradients that are written out.

    Args:
        a, b: with k numbers in axis 1.
        product: of two pieces; it may add axes after axis 1.
    """
    width = a.shape[1]
    if width <= LONGEST_SUM:
        return _one_sum(a, b, product)
    # three pieces or more: XLA would unroll a loop of a single turn, and fuse all into one slow sum
    piece = next(n for n in range(PIECE, 0, -1) if width % n == 0)

    def add(i, total):
        return total + _one_sum(_rows(a, i * piece, piece), _rows(b, i * piece, piece), product)

    return ops.fori_loop(1, width // piece, add, add(0, 0.0))


def _wide(x):
    """At least float32, in which sums are safe."""
    return ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) == "bfloat16" else x


def _rows(tensor, start, size):
    """tensor[:, start : start + size], where `start` may be traced."""
    groups, _, *rest = tensor.shape
    return ops.slice(tensor, [0, start, *[0] * len(rest)], [groups, size, *rest])


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
