"""What data are made with in a compiled program, on any backend of Keras. `host_ops` has the same names."""
# ruff: noqa: F401

import math

from keras import ops
from keras.ops import (
    abs,
    any,
    argmax,
    bitwise_and,
    bitwise_xor,
    cast,
    concatenate,
    convert_to_tensor,
    cos,
    log,
    matmul,
    minimum,
    reshape,
    right_shift,
    sin,
    sqrt,
    stack,
    sum,
    transpose,
    where,
    while_loop,
    zeros_like,
)


def arange(count: int):
    """0 .. count - 1."""
    return ops.arange(count, dtype="int32")


def gather(table, index, batch_dims: int = 0):
    """Rows of a table: [*batch, K, ...] and int32 index [*batch, *I] -> [*batch, *I, ...].

    Args:
        table: its shape is known.
        index: 0 to K - 1.
        batch_dims: how many leading axes both share.
    """
    batch, rows = table.shape[:batch_dims], table.shape[batch_dims]
    each = math.prod(batch)
    first = ops.reshape(
        rows * ops.arange(each, dtype="int32"), [*batch, *[1] * (len(index.shape) - batch_dims)]
    )
    return ops.take(ops.reshape(table, [each * rows, *table.shape[batch_dims + 1 :]]), index + first, axis=0)
