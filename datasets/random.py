"""Distributions made from uniform numbers.

`ops` is `host_ops` in tf.data and `device_ops` in a compiled program.
"""

import math
from typing import Any

import numpy as np

from modtf.metrics.distributions import as_numbers

SHUFFLING_ROUNDS = 8


def standard_normal(ops: Any, uniform: Any) -> Any:
    """Map uniform numbers [..., 2n] to N(0, 1) numbers [..., 2n], by Box and Muller (1958). On a CPU this is
    twice as fast as `tf.random.stateless_normal`, whose logarithm and sine are not vectorised."""
    half = uniform.shape[-1] // 2
    first, second = uniform[..., :half], uniform[..., half:]
    radius = ops.sqrt(-2.0 * ops.log(1.0 - first))
    cosine, sine = unit_vector(ops, second)
    return ops.concatenate([radius * cosine, radius * sine], axis=-1)


def unit_vector(ops: Any, uniform: Any) -> tuple[Any, Any]:
    """Map uniform numbers to the two coordinates of unit vectors of uniform direction.

    A normalised standard normal vector in the plane has exactly this distribution.
    """
    angle = (2.0 * math.pi) * uniform
    return ops.cos(angle), ops.sin(angle)


def choose_rule(ops: Any, uniform: Any, num_rules: int, thresholds: Any) -> Any:
    """Map uniform numbers to rules, int32, of the same shape.

    Thresholds are the cumulated probabilities of rules 0..R-2, broadcastable to `[*uniform.shape, R-1]`. They
    are None if all rules are equally probable.
    """
    if thresholds is not None:
        above = uniform[..., None] >= ops.cast(thresholds, uniform.dtype)
        return ops.sum(ops.cast(above, "int32"), axis=-1)
    # u * R may round up to R itself
    return ops.minimum(ops.cast(uniform * num_rules, "int32"), num_rules - 1)


def shuffled(ops: Any, place: Any, epoch: Any, count: int, key: Any) -> Any:
    """Return a permutation of 0 .. count - 1 for each epoch and key, at the places of an epoch.

    This is a Feistel network over numbers of two digits, so any place is found without the others. A result
    of `count` or more is mapped again (Black and Rogaway, 2002); `count` is at most 2^32. Places and epochs
    are integers of one shape; the key is two words, uint32 [2].
    """
    base = math.isqrt(count - 1) + 1
    digits, half = np.uint32(base), np.uint32(16)
    key = ops.convert_to_tensor(key)
    seeds = _mix(ops, key[1] + ops.cast(ops.arange(SHUFFLING_ROUNDS), "uint32"))
    of_epoch = _mix(ops, key[0] + ops.cast(epoch, "uint32"))

    def on(place: Any, beyond: Any) -> tuple[Any, Any]:
        left, right = ops.cast(place // base, "uint32"), ops.cast(place % base, "uint32")
        for number in range(SHUFFLING_ROUNDS):
            drawn = ops.right_shift(_mix(ops, (right + seeds[number]) ^ of_epoch), half) * digits
            moved = left + ops.right_shift(drawn, half)
            left, right = right, ops.where(moved >= digits, moved - digits, moved)
        place = ops.where(beyond, ops.cast(left * digits + right, place.dtype), place)
        return place, place >= count

    return ops.while_loop(lambda _, beyond: ops.any(beyond), on, (place, place >= 0))[0]


def _mix(ops: Any, word: Any) -> Any:
    """Apply MurmurHash3's finaliser, where every bit of a word changes every other."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        word = (word ^ ops.right_shift(word, np.uint32(shift))) * np.uint32(factor)
    return word ^ ops.right_shift(word, np.uint32(16))


def check_rule_probs(rule_probs: Any, num_rules: int) -> np.ndarray:
    """Return rule probabilities as float64 [K, R]. Raise `ValueError` if they are invalid."""
    probs = np.atleast_2d(as_numbers(rule_probs, "rule_probs"))
    if probs.ndim != 2 or probs.shape[1] != num_rules or probs.shape[0] == 0:
        raise ValueError(f"rule_probs has shape {probs.shape}; expected [{num_rules}] or [K, {num_rules}].")
    if not np.all(probs >= 0) or not np.allclose(probs.sum(1), 1.0, atol=1e-6):
        raise ValueError(
            "rule_probs is not valid; expected numbers of at least 0 that sum to 1. Divide them by their sum."
        )
    return probs / probs.sum(1, keepdims=True)
