"""What is known of a measure: its range, its best value, which direction is better, how to name its axis."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

GROUPS = ("performance", "collapse", "specialisation")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a table, a figure or a test needs to know of one measure.

    Raises:
        ValueError: if the group is unknown, or range, perfect value and direction contradict each other.
    """

    name: str
    group: str  # one of GROUPS
    range: tuple[float, float]  # smallest and largest possible value; the largest may be infinite
    perfect: float
    smaller_is_better: bool
    description: str  # one line
    axis_label: str
    # Of the activation matrix `A [R, M]`; NaN where the measure has no meaning. May ask for `rule_probs [R]`
    # and `usage [K, M]` by having arguments of these names, default None. None for performance measures.
    function: Callable[..., float] | None = None

    def __post_init__(self) -> None:
        low, high = self.range
        if self.group not in GROUPS:
            raise ValueError(f"Measure {self.name!r}: group {self.group!r} is not in {', '.join(GROUPS)}.")
        if not low < high:
            raise ValueError(f"Measure {self.name!r}: range {self.range} is not (low, high) with low < high.")
        best = low if self.smaller_is_better else high
        if self.perfect != best:
            raise ValueError(
                f"Measure {self.name!r}: perfect is {self.perfect}, but with smaller_is_better="
                f"{self.smaller_is_better} and range {self.range} the best value is {best}."
            )

    def accepts(self, argument: str) -> bool:
        """Whether the measure's function has an argument of this name."""
        return self.function is not None and argument in inspect.signature(self.function).parameters
