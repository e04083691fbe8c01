"""The values to try for one setting: a list, or all numbers between two bounds."""

import ast
import math
from dataclasses import dataclass
from typing import Any

EXAMPLES = "0.5,1,2 or 1e-5:1e-2 or 1e-5:1e-2:log"
DIGITS = 4  # significant digits of a number between two bounds
EDGE = 0.05  # share of a range, at each end, that counts as its edge


@dataclass(frozen=True)
class Values:
    """Values of one type: whole numbers, numbers, words, or True and False."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        """Return the values to check: all of them."""
        return self.values

    def take(self, value: Any) -> Any:
        """Return the value as it was written."""
        return next(known for known in self.values if known == value)

    def spread(self, points: int) -> "Values":
        """Return the same values, whatever the number."""
        return self

    def is_edge(self, value: Any) -> bool:
        """Return whether a value is not between the smallest and largest of several floats. Others have no
        edge."""
        several = len(self.values) > 1 and isinstance(value, float)
        return several and not min(self.values) < value < max(self.values)

    def __str__(self) -> str:
        return ",".join(repr(one) if parse_value(str(one)) != one else str(one) for one in self.values)


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`, whole ones if both are; with `log`, on a logarithmic scale."""

    low: float
    high: float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Return the values to check: the bounds."""
        return self.low, self.high

    def take(self, value: float) -> float:
        """Return the value with its significant digits, within the bounds."""
        if self.is_whole:
            return int(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def spread(self, points: int) -> Values:
        """Return this many values, evenly spaced and including the bounds; fewer if whole numbers repeat."""
        shares = [i / (points - 1) for i in range(points)] if points > 1 else [0.5]
        if self.log:
            values = [self.low * (self.high / self.low) ** share for share in shares]
        else:
            values = [self.low + (self.high - self.low) * share for share in shares]
        return Values(tuple(dict.fromkeys(self.take(round(x) if self.is_whole else x) for x in values)))

    def is_edge(self, value: float) -> bool:
        """Return whether a value lies close to a bound. Whole numbers have no edge."""
        scale = math.log if self.log else float
        share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return not self.is_whole and not EDGE < share < 1 - EDGE

    def __str__(self) -> str:
        return f"{self.low}:{self.high}" + (":log" if self.log else "")


Axis = Values | Range


def parse_axis(text: str) -> Axis:
    """Parse the values to try: values with commas between; or low:high, or low:high:log for numbers.

    Raises:
        ValueError: if the text has another format.

    Example:
        >>> parse_axis("0.5,1,2").values
        (0.5, 1.0, 2.0)
        >>> parse_axis("1:8").is_whole, parse_axis("1e-5:1e-2:log").spread(4).values
        (True, (1e-05, 0.0001, 0.001, 0.01))
    """
    low, colon, rest = str(text).partition(":")
    if not colon:
        return _choice(text)
    high, colon, scale = rest.partition(":")
    bounds = [parse_value(bound) for bound in (low, high)]
    if not all(map(_is_number, bounds)) or (colon and scale != "log"):
        raise ValueError(f"{text!r} holds no values to try; expected {EXAMPLES}.")
    axis = Range(bounds[0], bounds[1], bool(colon))
    if not axis.low < axis.high:
        raise ValueError(f"{text!r} is not valid; expected a first number below the second.")
    if axis.log and axis.low <= 0:
        raise ValueError(f"{text!r} is not valid; a logarithmic scale needs numbers above 0.")
    return axis


def parse_named(text: str) -> tuple[str, Axis]:
    """Parse NAME=VALUES, see `parse_axis`. Raise `ValueError` for other text."""
    name, equals, values = str(text).partition("=")
    if not (name and equals):
        raise ValueError(f"{text!r} is not valid; expected NAME=VALUES, with values such as {EXAMPLES}.")
    return name, parse_axis(values)


def parse_value(text: str) -> Any:
    """Return a Python literal ("2", "0.5", "None") if the text is one, else the text itself.

    "true" and "false" are truth values, too: as a text, "false" would count as true.
    """
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (SyntaxError, ValueError):
        return text


def _choice(text: str) -> Values:
    values = [parse_value(part) for part in str(text).split(",")]
    if all(map(_is_number, values)) and any(isinstance(value, float) for value in values):
        values = [float(value) for value in values]
    kinds = {type(value) for value in values}
    if "" in values or len(kinds) > 1 or not kinds <= {int, float, str, bool}:
        raise ValueError(
            f"{text!r} holds no values to try; expected {EXAMPLES}: values of one type, separated by commas."
        )
    if len(set(values)) < len(values):
        raise ValueError(f"{text!r} holds a value twice. Leave one out.")
    return Values(tuple(values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
