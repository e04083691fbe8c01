"""Options that change the data of the rule-based families; at their defaults the data are the published ones.

`modtf.datasets.families.variations` applies them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from modtf.condition import Condition
from modtf.family import Family
from modtf.option import Option

if TYPE_CHECKING:
    from modtf.task import Task

LEAST_SHARE = 0.01  # of an equal share 1/R: a rarer rule would need too many tokens to be measured


def zipf(num_rules: int, exponent: float) -> tuple[float, ...]:
    """Return the frequencies [R] of Zipf's law, p(r) ~ 1 / (r + 1)^exponent; a negative exponent reverses
    the order of the rules.

    Example:
        >>> zipf(3, 1.0)[0] == 6 / 11, zipf(3, -1.0)[2] == 6 / 11
        (True, True)
    """
    weights = [(rule + 1) ** -abs(exponent) for rule in range(num_rules)]
    probs = tuple(weight / sum(weights) for weight in weights)
    return probs if exponent >= 0 else probs[::-1]


def rare_rules(rule_probs: Sequence[float]) -> list[bool]:
    """Return which rules [R] are less frequent than an equal share, 1/R."""
    return [p < 1.0 / len(rule_probs) - 1e-9 for p in rule_probs]


class VariedFamily(Family):
    """A rule-based family with these options."""

    options: ClassVar[tuple[Option, ...]] = (
        Option("zipf", 0.0, "exponent of Zipf's law, p(r) ~ 1/(r+1)^zipf, of rules' frequencies; 0: equal",
               high=4.0, later=True, keyed=False),
    )  # fmt: skip
    more_conditions = (
        Condition("reversed_frequencies", "first rules rare (Zipf's law, reversed)", options={"zipf": -1.0}),
    )

    def rule_probs(self, task: "Task") -> tuple[float, ...] | None:
        return zipf(task.num_rules, task.zipf) if task.zipf else None

    def check(self, task: "Task") -> None:
        least = min(self.rule_probs(task) or (1.0,))
        if least * task.num_rules < LEAST_SHARE:
            raise ValueError(
                f"zipf={task.zipf!r} gives the rarest of {task.num_rules} rules 1 token in {1 / least:,.0f}; "
                f"expected at least 1 in {task.num_rules / LEAST_SHARE:,.0f}. Take a smaller zipf."
            )
