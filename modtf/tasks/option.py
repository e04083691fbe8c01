"""The options that a family leaves to its tasks."""

import math
from dataclasses import dataclass
from typing import Any

from modtf.base.checks import (
    check_attributes,
    check_choice,
    check_integer,
    check_name,
    check_number,
    is_number,
)


@dataclass(frozen=True)
class Option:
    """A choice that a family leaves to its tasks, in addition to setting, rules and data seed.

    It has either `choices`, or the bounds `low` and `high` of a number.
    """

    name: str
    default: Any
    description: str  # for --help
    choices: tuple[Any, ...] | None = None
    low: float = 0.0
    high: float = float("inf")
    #: whether the option always enters the task's name and random numbers, or only if it is not the default.
    #: In the latter case a family may gain an option without changing its old tasks
    always_named: bool = False
    #: whether the option enters the random numbers. False: tasks that differ in it alone have the same
    #: examples and initial weights, so that they can be compared in pairs
    keyed: bool = True
    #: whether a family gained the option after results were published. At its default it is then absent from
    #: `Task.to_dict`, so that old cells keep their hashes
    later: bool = False
    integer: bool = False  # whether a number must be whole

    def __post_init__(self) -> None:
        check_name("an option", self.name)
        kinds = dict.fromkeys(("always_named", "keyed", "later", "integer"), bool)
        check_attributes(f"The option {self.name!r}", self, description=str, **kinds)
        what, choices = f"The option {self.name!r} has", self.choices
        several = isinstance(choices, tuple | list) and bool(choices)
        if choices is not None and not (several and all(isinstance(c, str) or is_number(c) for c in choices)):
            raise ValueError(f"{what} choices={choices!r}; expected several texts or numbers, or None.")
        if not is_number(self.low) or not is_number(self.high) or not self.low < self.high:
            raise ValueError(f"{what} low={self.low!r} and high={self.high!r}; expected numbers, low < high.")
        try:
            object.__setattr__(self, "default", self.check(self.default))  # 1 and 1.0 are one task, one hash
        except ValueError as error:
            raise ValueError(f"{what} a default that is not valid: {error}") from error

    def check(self, value: Any) -> Any:
        """Return the value. Raise `ValueError` unless it is allowed."""
        if self.choices is None and self.integer:
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            low, high = (int(end) if math.isfinite(end) else None for end in (self.low, self.high))
            return check_integer(self.name, whole, -(2**63) if low is None else low, high)
        if self.choices is None:
            return check_number(self.name, value, self.low, self.high)
        check_choice(self.name, value, self.choices)
        return next(choice for choice in self.choices if choice == value)  # not an equal NumPy number

    def show(self, value: Any) -> str:
        """Return the value as a task's name shows it: "v2", "noise0.1"."""
        if isinstance(value, str):
            return value
        short = f"{value:g}"
        return self.name + (short if float(short) == value else repr(value))
