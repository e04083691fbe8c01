"""The description of a measure: its range, its best value, its better direction and its axis label."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from modtf.base.checks import check_attributes, is_number
from modtf.metrics.distributions import Array

# Evaluation computes "performance"; the other groups are functions of an activation matrix. A "diagnostic" is
# an additional quantity that practitioners use. It is shown on request only, to keep the main tables small.
GROUPS = ("performance", "collapse", "specialisation", "diagnostic")
MAIN_GROUPS = ("collapse", "specialisation")
ARGUMENTS = ("rule_probs", "usage", "rule_frequencies", "num_draws")


#: activation matrices `[..., R, M]`, checked, and p(r) `[R]` -> the value of each matrix `[...]`
Formula = Callable[[Array, Array], Array]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The facts that tables, figures and tests need about one measure; see `register_measure`.

    Raises:
        ValueError: if the group is unknown; if range, perfect value and direction contradict each other; or
            if the function's arguments are not `A` and a choice of the documented optional ones.
    """

    name: str
    group: str  # one of GROUPS
    range: tuple[float, float]
    perfect: float | None
    smaller_is_better: bool | None
    description: str
    axis_label: str
    function: Callable[..., float] | None = None  # None for performance measures
    formula: Formula | None = None  # the same of many checked matrices at once
    needs_labels: bool = True  # False for a function of the load p @ A alone

    def __post_init__(self) -> None:
        what = f"Measure {self.name!r}"
        check_attributes(what, self, name=str, group=str, description=str, axis_label=str)
        fault = next(self._faults(), None)
        if fault is not None:
            raise ValueError(f"{what}: {fault}")

    def _faults(self) -> Iterator[str]:
        """Yield the faults. Each check assumes that the ones before it passed."""
        smaller, perfect, function = self.smaller_is_better, self.perfect, self.function
        two = isinstance(self.range, tuple | list) and len(self.range) == 2
        if not two or not all(map(is_number, self.range)):
            yield f"range is {self.range!r}; expected two numbers."
        if perfect is not None and not is_number(perfect):
            yield f"perfect={perfect!r}; expected a number or None."
        if not (smaller is None or isinstance(smaller, bool)):
            yield f"smaller_is_better={smaller!r}; expected True, False or None."
        if self.group not in GROUPS:
            yield f"group is {self.group!r}; expected one of {', '.join(GROUPS)}."
        yield from self._faults_of_values()
        if (function is None) != (self.group == "performance"):
            yield (
                f"group {self.group!r} and function={function!r}; expected a function of the activation "
                "matrix in every group but 'performance', and none there."
            )
        if function is not None:
            yield from self._faults_of(function)

    def _faults_of_values(self) -> Iterator[str]:
        smaller, perfect = self.smaller_is_better, self.perfect
        low, high = self.range
        if not low < high:
            yield f"range is {self.range}; expected (low, high) with low < high."
        if self.group != "diagnostic" and (smaller is None or perfect is None):
            yield (
                f"perfect={perfect} and smaller_is_better={smaller}, but the group {self.group!r} needs a "
                "best value. Give both, or use the group 'diagnostic'."
            )
        best = None if smaller is None else low if smaller else high
        if perfect != best and not (self.group == "diagnostic" and perfect is None):
            yield (
                f"perfect is {perfect}; expected {best}, the best value for smaller_is_better={smaller} and "
                f"range {self.range}."
            )

    def _faults_of(self, function: Callable[..., float]) -> Iterator[str]:
        if not callable(function):
            yield f"function={function!r} cannot be called."
        parameters = list(inspect.signature(function).parameters.values())
        first, others = next(iter(parameters), None), parameters[1:]
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if first is None or first.name != "A" or first.kind not in by_position:
            yield f"the first argument of its function is {first}; expected 'A', the activation matrix."
        for other in others:
            if other.name not in ARGUMENTS or other.default is inspect.Parameter.empty:
                yield (
                    f"its function has the argument '{other}'; expected A and, with defaults, any of "
                    f"{', '.join(ARGUMENTS)}."
                )

    def accepts(self, argument: str) -> bool:
        """Return whether the measure's function has an argument of this name."""
        return self.function is not None and argument in _arguments(self.function)


@cache  # called for every matrix of a jackknife; `inspect` takes longer than a measure
def _arguments(function: Callable[..., float]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)
