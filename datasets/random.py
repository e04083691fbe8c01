"""Stateless random numbers and what is made of them. Every function is deterministic in its inputs."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf


def uniforms(
    key: tf.Tensor, step: tf.Tensor, shape: Sequence[int], dtype: tf.DType = tf.float32
) -> tf.Tensor:
    """Uniform numbers in [0, 1) of `shape`, a pure function of (key, step).

    Args:
        key: int64 scalar (`modtf.randomness.random_key`).
        step: int64 scalar.
    """
    # The default algorithm depends on the device. XLA makes other floats of the same bits: data are made in
    # tf.data, which does not use it
    return tf.random.stateless_uniform(shape, tf.stack([key, step]), dtype=dtype, alg="philox")


def standard_normal(uniform: tf.Tensor) -> tf.Tensor:
    """Uniform numbers [..., 2n] -> N(0, 1) numbers [..., 2n], by Box and Muller (1958).

    Twice as fast on a CPU as `tf.random.stateless_normal`, whose logarithm and sine are not vectorised.
    """
    first, second = tf.split(uniform, 2, axis=-1)
    radius = tf.sqrt(-2.0 * tf.math.log(1.0 - first))
    cosine, sine = unit_vector(second)
    return tf.concat([radius * cosine, radius * sine], axis=-1)


def unit_vector(uniform: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Uniform numbers -> the two coordinates of unit vectors of uniform direction.

    A standard normal vector in the plane, normalised, has just this distribution.
    """
    angle = (2.0 * math.pi) * uniform
    return tf.cos(angle), tf.sin(angle)


def choose_rule(uniform: tf.Tensor, num_rules: int, thresholds: np.ndarray | tf.Tensor | None) -> tf.Tensor:
    """Uniform numbers -> rules, int32, of the same shape.

    Args:
        uniform: any shape, in [0, 1).
        num_rules: R.
        thresholds: cumulated probabilities of rules 0..R-2, broadcastable to `[*uniform.shape, R-1]`,
            or None where all rules are equally probable.
    """
    if thresholds is not None:
        above = uniform[..., None] >= tf.cast(thresholds, uniform.dtype)
        return tf.reduce_sum(tf.cast(above, tf.int32), axis=-1)
    # u * R may round up to R itself
    return tf.minimum(tf.cast(uniform * num_rules, tf.int32), num_rules - 1)


def check_rule_probs(rule_probs: object, num_rules: int) -> np.ndarray:
    """Rule probabilities as float64 [K, R]; raises `ValueError` where they are none."""
    probs = np.atleast_2d(np.asarray(rule_probs, np.float64))
    if probs.ndim != 2 or probs.shape[1] != num_rules or probs.shape[0] == 0:
        raise ValueError(
            f"rule_probs needs the shape [{num_rules}] or [K, {num_rules}], received {probs.shape}."
        )
    if not np.all(probs >= 0) or not np.allclose(probs.sum(1), 1.0, atol=1e-6):
        raise ValueError("rule_probs needs non-negative numbers that sum to 1; divide them by their sum.")
    return probs / probs.sum(1, keepdims=True)
