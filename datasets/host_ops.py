"""Operations that make data in tf.data, whatever Keras's backend: TensorFlow's functions by Keras's names.

`device_ops` has the same names for compiled programs.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

any, concatenate, log, sum = tf.reduce_any, tf.concat, tf.math.log, tf.reduce_sum
right_shift = tf.bitwise.right_shift


def __getattr__(name: str) -> Any:
    """Return the function of the same name: abs, cast, cos, gather, matmul, ..."""
    return getattr(tf, name)


def arange(count: int) -> tf.Tensor:
    """Return 0 .. count - 1."""
    return tf.range(count, dtype=tf.int64)


def argmax(x: tf.Tensor, axis: int) -> tf.Tensor:
    """Return the index of the largest value along the last axis, int32; the first one for ties."""
    if axis != -1:
        raise ValueError(f"axis={axis} is not supported; expected -1, the last axis.")
    return tf.math.top_k(x).indices[..., 0]  # faster than tf.argmax


def upper_word(word: tf.Tensor, factor: int) -> tf.Tensor:
    """Return the upper 32 bits of a product of two words, uint32."""
    return tf.cast(right_shift(tf.cast(word, tf.uint64) * factor, 32), tf.uint32)


def uniforms(
    key: tf.Tensor, step: tf.Tensor, shape: Sequence[int], dtype: tf.DType = tf.float32
) -> tf.Tensor:
    """Return uniform numbers in [0, 1) of `shape`, a pure function of two int64 scalars, (key, step)."""
    # The default algorithm depends on the device. XLA would make other floats of the same bits;
    # `modtf.datasets.philox` makes these numbers there
    return tf.random.stateless_uniform(shape, tf.stack([key, step]), dtype=dtype, alg="philox")
