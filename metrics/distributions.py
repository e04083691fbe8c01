"""Checks of arrays of probability distributions, with errors that name the invalid entry."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# A float32 running sum over a million tokens leaves row sums within about 1e-5 of 1, more for more tokens. A
# mistake (counts, a joint distribution, logits, a transposed matrix) differs from 1 by far more than this.
TOLERANCE = 1e-3
NO_NUMBERS = {"c": "complex", "S": "text", "U": "text", "M": "dates", "m": "times"}


def check_distributions(values: ArrayLike, name: str, ndim: int | None = None) -> Array:
    """Return `values [..., K]` as float64, with every row along the last axis divided by its sum.

    A row whose sum is 1 up to rounding is returned unchanged. Two rows with the same numbers in another order
    then stay equal, although their sums may differ in the last digit. Raises `ValueError`, with `name`, for a
    wrong number of dimensions, an empty array, NaN or infinity, a negative number, or a row that does not sum
    to 1 within `TOLERANCE`.
    """
    array = as_numbers(values, name)
    if array.ndim == 0 or (ndim is not None and array.ndim != ndim):
        raise ValueError(f"{name} has shape {array.shape}; expected {ndim or 'at least 1'} dimension(s).")
    if array.size == 0:
        raise ValueError(f"{name} is empty: its shape is {array.shape}.")
    rounding = array.shape[-1] * np.finfo(np.float64).eps
    if array.min() >= 0 and np.abs(array.sum(axis=-1) - 1.0).max() <= rounding:
        return array  # the usual case, and measures are computed thousands of times
    for wrong, words in (
        (~np.isfinite(array), "every entry must be finite"),
        (array < 0, "probabilities cannot be negative"),
    ):
        if wrong.any():
            index = first_index(wrong)
            raise ValueError(f"{name} holds {array[index]:g} at {show_index(index)}; {words}.")
    sums = array.sum(axis=-1, keepdims=True)
    wrong = np.abs(sums[..., 0] - 1.0) > TOLERANCE
    if wrong.any():
        index = first_index(wrong)
        where = f"row {show_index(index)}" if index else "it"
        raise ValueError(
            f"{name} must hold probabilities on its last axis, but {where} sums to {sums[..., 0][index]:g} "
            "instead of 1. Divide counts by their sums. Transpose the array if its axes are swapped."
        )
    return np.asarray(array / np.where(np.abs(sums - 1.0) <= rounding, 1.0, sums))


def entropy(p: Array) -> Array:
    """Return the entropy in nats, `[...]`, of the distributions `p [..., K]`."""
    return -np.sum(p * np.log(p + (p == 0.0)), axis=-1) + 0.0  # not -0.0; a mask would be far slower


def as_numbers(values: ArrayLike, name: str) -> Array:
    """Return the values as float64. Raise `ValueError` if they are ragged or not numbers."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    try:
        return real(values).astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error


def from_tensor(values: Any) -> Any:
    """Return a tensor of PyTorch as an array, and anything else as it is."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    is_half = tensor.is_floating_point() and tensor.element_size() < 4  # NumPy has no bfloat16
    return (tensor.float() if is_half else tensor).numpy()


def real(values: ArrayLike) -> NDArray[Any]:
    """Return the values as an array. Raise `TypeError` for types that NumPy would convert silently.

    Tensors of PyTorch may require gradients, be on any device, and have any precision.
    """
    array = np.asarray(from_tensor(values))
    kind = array.dtype.kind
    if kind == "O" and any(isinstance(value, str | bytes) for value in array.flat):
        kind = "U"
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            "the values are masked. Leave out the masked ones, or replace them by values.filled(0)"
        )
    if kind in NO_NUMBERS:
        raise TypeError(f"the values are {NO_NUMBERS[kind]}")
    return array


def first_index(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the first true entry."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def show_index(index: tuple[int, ...]) -> str:
    """Return an index in the format of error messages."""
    return f"[{', '.join(map(str, index))}]"
