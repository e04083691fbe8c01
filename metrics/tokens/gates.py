"""What the router of a layer did with some tokens: the gate mass of every module, and the modules chosen."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array

# The gates of a token are often bfloat16: every one is off by up to 1/256 of itself, and so is their sum.
# Logits, or gates that were not divided by their sum, miss 1 by far more somewhere.
TOLERANCE = 0.01


def gate_mass(values: NDArray[Any], from_logits: bool, top_k: int | None, first_token: int = 0) -> Array:
    """The gate mass `[T, M]` of every module, rows summing to 1, from gates or logits `[T, M]`.

    With `top_k` only the k largest of every row keep theirs, and are divided by their sum: the softmax over
    the k largest logits, the same as the softmax over all renormalised.

    Raises:
        ValueError: if gates are no distributions, or logits not finite; tokens are counted from
            `first_token`.
    """
    gates = values.astype(np.float64)
    if from_logits:
        largest = gates.max(axis=1, keepdims=True)  # NaN where there is one
        _refuse(
            ~np.isfinite(largest[:, 0]), gates, first_token, "logits must be finite (or -inf: never chosen)"
        )
        np.exp(gates - largest, out=gates)
    else:
        sums = gates.sum(axis=1)
        _refuse(~np.isfinite(sums), gates, first_token, "gates must be finite")
        _refuse(
            (np.abs(sums - 1.0) > TOLERANCE) | (gates.min(axis=1) < 0),
            gates,
            first_token,
            "gates must be probabilities that sum to 1. If these are logits say from_logits=True; if gates "
            "that were not renormalised, divide them by their sum",
        )
    if top_k is not None and top_k < gates.shape[1]:
        dropped = np.argpartition(gates, -top_k, axis=1)[:, :-top_k]
        np.put_along_axis(gates, dropped, 0.0, axis=1)
    gates /= gates.sum(axis=1, keepdims=True)
    return gates


def hard_assignment(mass: Array, top_k: int | None) -> Array:
    """The same tokens `[T, M]` with 1/k at each of the k modules with the most mass, k = 1 for None."""
    hard = np.zeros_like(mass)
    k = top_k or 1
    if k == 1:
        hard[np.arange(len(mass)), mass.argmax(axis=1)] = 1.0
    elif k >= mass.shape[1]:
        hard[:] = 1.0 / mass.shape[1]
    else:
        np.put_along_axis(hard, np.argpartition(mass, -k, axis=1)[:, -k:], 1.0 / k, axis=1)
    return hard


def _refuse(wrong: NDArray[np.bool_], values: Array, first_token: int, what: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        row = np.array2string(values[index], precision=3, threshold=6, edgeitems=3)
        raise ValueError(
            f"Activations of token {first_token + index} are {row}, with sum {values[index].sum():.4g}: "
            f"{what}."
        )
