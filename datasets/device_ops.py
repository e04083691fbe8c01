"""What data are made with in a compiled program, on any backend of Keras. `host_ops` has the same names."""

import math

from keras import ops
from keras.ops import (
    abs,
    argmax,
    cast,
    concatenate,
    cos,
    log,
    matmul,
    minimum,
    reshape,
    sin,
    sqrt,
    stack,
    sum,
    transpose,
    zeros_like,
)

__all__ = [
    "abs",
    "argmax",
    "cast",
    "concatenate",
    "cos",
    "gather",
    "log",
    "matmul",
    "minimum",
    "reshape",
    "sin",
    "sqrt",
    "stack",
    "sum",
    "transpose",
    "zeros_like",
]


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
