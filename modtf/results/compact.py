"""Activation matrices made small for archives: shares in whole 2048ths."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

PARTS = 2048  # of 1: float16 has all their multiples from 0 to 1


def apportion(shares: ArrayLike, parts: int = PARTS) -> NDArray[np.float64]:
    """Rounds shares to whole parts whose sum stays: by largest remainders, Hamilton's way of sharing seats.

    Args:
        shares: at least 0, with the sum 1 over the last axis, `[..., M]`.
        parts: of 1.

    Returns:
        Multiples of 1 / parts, each less than 1 / parts away from its share, `[..., M]`; what was rounded
        before stays as it is, and so do NaN.

    Example:
        >>> apportion([0.5, 0.3, 0.2], parts=8).tolist()
        [0.5, 0.25, 0.25]
    """
    exact = np.asarray(shares, np.float64) * parts
    whole = np.floor(exact)
    missing = parts - whole.sum(axis=-1, keepdims=True)
    place = np.argsort(np.argsort(whole - exact, axis=-1, kind="stable"), axis=-1)  # 0: largest remainder
    return (whole + (place < missing)) / parts


def compact(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The arrays of `activation.npz` as such a file, not compressed, with matrices rounded by `apportion`."""
    file = io.BytesIO()
    rounded = {
        name: apportion(array).astype(np.float16) if np.issubdtype(array.dtype, np.floating) else array
        for name, array in arrays.items()
    }
    np.savez(file, allow_pickle=False, **rounded)
    return file.getvalue()
