"""What is known of a measure: its range, its best value, which direction is better, how to name its axis."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from modtf.checks import is_number

# "performance" is what evaluation computes; the others are functions of an activation matrix. A "diagnostic"
# is what practitioners look at besides: shown where it is asked for, so as not to crowd the main tables.
GROUPS = ("performance", "collapse", "specialisation", "diagnostic")
MAIN_GROUPS = ("collapse", "specialisation")
ARGUMENTS = ("rule_probs", "usage", "rule_frequencies", "num_draws")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a table, a figure or a test needs to know of one measure.

    Raises:
        ValueError: if the group is unknown; if range, perfect value and direction contradict each other; or
            if the function does not take an activation matrix `A` and otherwise only what others can give.
    """

    name: str
    group: str  # one of GROUPS
    range: tuple[float, float]  # smallest and largest possible value; the largest may be infinite
    # None for a diagnostic whose best value depends on M, or that has no better direction at all.
    perfect: float | None
    smaller_is_better: bool | None
    description: str  # one line
    axis_label: str
    # Of the activation matrix `A [R, M]`; NaN where the measure has no meaning. May ask for what is in
    # ARGUMENTS by having arguments of these names, with defaults. None for performance measures.
    function: Callable[..., float] | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        low, high = self.range
        if self.group not in GROUPS:
            raise ValueError(f"Measure {self.name!r}: group {self.group!r} is not in {', '.join(GROUPS)}.")
        if not low < high:
            raise ValueError(f"Measure {self.name!r}: range {self.range} is not (low, high) with low < high.")
        self._check_direction()
        if (self.function is None) != (self.group == "performance"):
            raise ValueError(
                f"Measure {self.name!r}: group {self.group!r} and function={self.function!r}; expected a "
                "function of the activation matrix in every group but 'performance', and none there."
            )
        if self.function is not None:
            self._check_signature()

    def _check_kinds(self) -> None:
        for name in ("name", "group", "description", "axis_label"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"Measure {self.name!r}: {name}={getattr(self, name)!r}; expected a text.")
        two = isinstance(self.range, tuple | list) and len(self.range) == 2
        if not two or not all(map(is_number, self.range)):
            raise ValueError(f"Measure {self.name!r}: range {self.range!r} is not two numbers.")
        if self.perfect is not None and not is_number(self.perfect):
            raise ValueError(f"Measure {self.name!r}: perfect={self.perfect!r}; expected a number or None.")
        if not (self.smaller_is_better is None or isinstance(self.smaller_is_better, bool)):
            raise ValueError(
                f"Measure {self.name!r}: smaller_is_better={self.smaller_is_better!r}; expected True, False "
                "or None."
            )
        if self.function is not None and not callable(self.function):
            raise ValueError(f"Measure {self.name!r}: function={self.function!r} cannot be called.")

    def _check_direction(self) -> None:
        low, high = self.range
        if self.group != "diagnostic" and (self.smaller_is_better is None or self.perfect is None):
            raise ValueError(
                f"Measure {self.name!r}: perfect={self.perfect} and smaller_is_better="
                f"{self.smaller_is_better}; in the group {self.group!r} there must be a best value. Without "
                "one it is a 'diagnostic'."
            )
        if self.group == "diagnostic" and self.perfect is None:
            return
        best = None if self.smaller_is_better is None else low if self.smaller_is_better else high
        if self.perfect != best:
            raise ValueError(
                f"Measure {self.name!r}: perfect is {self.perfect}, but with smaller_is_better="
                f"{self.smaller_is_better} and range {self.range} the best value is {best}."
            )

    def _check_signature(self) -> None:
        assert self.function is not None  # asked for with a function alone
        parameters = list(inspect.signature(self.function).parameters.values())
        first, others = next(iter(parameters), None), parameters[1:]
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if first is None or first.name != "A" or first.kind not in by_position:
            raise ValueError(
                f"Measure {self.name!r}: the first argument of its function is {first}; expected the "
                "activation matrix, A."
            )
        for parameter in others:
            if parameter.name not in ARGUMENTS or parameter.default is inspect.Parameter.empty:
                raise ValueError(
                    f"Measure {self.name!r}: its function has the argument '{parameter}'; expected A and, "
                    f"with defaults, any of {', '.join(ARGUMENTS)}."
                )

    def accepts(self, argument: str) -> bool:
        """Whether the measure's function has an argument of this name."""
        return self.function is not None and argument in _arguments(self.function)


@cache  # asked for every matrix of a jackknife; `inspect` takes longer than a measure
def _arguments(function: Callable[..., float]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)
