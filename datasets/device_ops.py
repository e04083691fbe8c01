"""Operations that make data in a compiled program, on any backend: `keras.ops` and a few additions.

With JAX, functions of `jax.numpy` come first: they keep 64 bits, which Keras rounds to 32.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

if keras.backend.backend() == "jax":
    from jax import numpy as first
else:
    first = ops


def __getattr__(name: str) -> Any:
    return getattr(first if hasattr(first, name) else ops, name)


def arange(count: int):
    """Return 0 .. count - 1."""
    return ops.arange(count, dtype="int32")


def upper_word(word, factor: int):
    """Return the upper 32 bits of a product of two words, computed by halves: some backends lack 64 bits."""
    half, bits = np.uint32(0xFFFF), np.uint32(16)
    factor_upper, factor_lower = np.uint32(factor >> 16), np.uint32(factor & 0xFFFF)
    upper, lower = ops.right_shift(word, bits), word & half
    left, right = lower * factor_upper, upper * factor_lower
    middle = ops.right_shift(lower * factor_lower, bits) + (left & half) + (right & half)
    carried = ops.right_shift(left, bits) + ops.right_shift(right, bits) + ops.right_shift(middle, bits)
    return upper * factor_upper + carried


def gather(table, index, batch_dims: int = 0):
    """Return table rows: [*batch, K, ...] of known shape and integers [*batch, *I] -> [*batch, *I, ...]."""
    batch, rows = table.shape[:batch_dims], table.shape[batch_dims]
    each = math.prod(batch)
    first = ops.reshape(
        rows * ops.arange(each, dtype="int32"), [*batch, *[1] * (len(index.shape) - batch_dims)]
    )
    table = ops.reshape(table, [each * rows, *table.shape[batch_dims + 1 :]])
    return ops.take(table, ops.cast(index, "int32") + first, axis=0)
