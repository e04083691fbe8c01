"""Checks of single values: errors say what was received and what was expected."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raises `ValueError` naming what was received and what was expected."""
    known = list(choices)
    if value not in known:
        raise ValueError(f"{name}={value!r} is not known; expected one of {', '.join(map(str, known))}.")


def check_integer(name: str, value: Any, low: int) -> int:
    """`value` as a plain `int`; raises `ValueError` unless it is an integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name}={value!r} is not valid; expected an integer of at least {low}.")
    return int(value)


def check_number(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a plain `float`; raises `ValueError` unless low <= value <= high (NaN is not)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise ValueError(f"{name}={value!r} is not valid; expected a number from {low:g} to {high:g}.")
    return float(value)
