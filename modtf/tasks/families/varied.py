"""Options that change the data of the rule-based families; at their defaults the data are the published ones.

`modtf.datasets.families.variations` applies them.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from modtf.tasks.condition import Condition
from modtf.tasks.family import Family, Option

if TYPE_CHECKING:
    from modtf.tasks.protocol import Training
    from modtf.tasks.task import Task

LEAST_SHARE = 0.01  # of an equal share 1/R: a rarer rule would need too many tokens to be measured
FORMS = ("linear", "network", "operation")
TRAIN_DATA = "train_data"  # the condition of the training examples
WITHHELD = "withheld"  # as `pairs`: only pairs that never occur in training


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


def next_rule(probs: Sequence[float], withheld: int, only: bool = False) -> list[list[float]]:
    """Return p(next rule | rule) [R, R] in training, or among `only` the withheld pairs.

    The `withheld` rules after a rule, r + 1, r + 2, ... modulo R, never follow it. The other ones keep their
    relative frequencies.
    """
    count, rows = len(probs), []
    for rule in range(count):
        after = [1 <= (other - rule) % count <= withheld for other in range(count)]
        row = [p if one == only else 0.0 for p, one in zip(probs, after, strict=True)]
        rows.append([p / sum(row) for p in row])
    return rows


@cache
def frequencies(num_rules: int, exponent: float, withheld: int, num_tokens: int) -> tuple[float, ...]:
    """Return the frequencies of the rules [R], the mean over the positions of a sequence."""
    now = first = zipf(num_rules, exponent)
    total, follows = list(first), next_rule(first, withheld)
    for _ in range(num_tokens - 1 if withheld else 0):
        now = tuple(
            sum(p * row[rule] for p, row in zip(now, follows, strict=True)) for rule in range(num_rules)
        )
        total = [a + b for a, b in zip(total, now, strict=True)]
    return tuple(p / sum(total) for p in total)


def option_of(task: "Task", name: str) -> Any:
    """Return one of these options of a task. Return None if it has the default, or if the family is of
    another kind: its options of the same name have other meanings."""
    return task.named_options.get(name) if isinstance(task.family, VariedFamily) else None


def irreducible(task: "Task", measure: str) -> float | None:
    """Return the least loss, or share of errors, that the task's label noise allows; None without noise.

    Regression: the mean absolute value of the noise. Classification with flips of probability q: q is the
    error, and its entropy in nats the cross-entropy.
    """
    noise = option_of(task, "noise")
    if not noise:
        return None
    if task.setting == "regression":
        return noise * math.sqrt(2 / math.pi)
    return noise if measure == "error" else -noise * math.log(noise) - (1 - noise) * math.log(1 - noise)


class VariedFamily(Family):
    """A rule-based family with these options."""

    options: ClassVar[tuple[Option, ...]] = (
        Option("zipf", 0.0, "exponent of Zipf's law, p(r) ~ 1/(r+1)^zipf, of rules' frequencies; 0: equal",
               high=4.0, later=True, keyed=False),
        Option("num_train", 0, "examples in training, repeated in epochs; 0: an endless stream",
               high=2**31 - 1, later=True, keyed=False, integer=True),
        Option("noise", 0.0, "of labels: standard deviation, in classification the probability of a flip",
               high=1e6, later=True, keyed=False),
        Option("shift", 0.0, "standard deviation of the rules' mean inputs, which carry the rule; 0: none",
               high=100.0, later=True, keyed=False),
        Option("hidden", 0, "1: the model is not told the rule",
               high=1, later=True, keyed=False, integer=True),
        Option("shell", 0.0, "radius of the ball of inputs in training, in median norms; 0: everywhere",
               high=10.0, later=True, keyed=False),
    )  # fmt: skip
    more_conditions: ClassVar[tuple[Condition, ...]] = (
        Condition("reversed_frequencies", "first rules rare (Zipf's law, reversed)", options={"zipf": -1.0}),
        Condition(TRAIN_DATA, "the training examples", True, of_option="num_train", split="train"),
        Condition("clean", "labels without noise", True, options={"noise": 0.0}, of_option="noise"),
        Condition("outside", "outside the ball", options={"support": "outside"}, of_option="shell"),
    )

    def rule_probs(self, task: "Task") -> tuple[float, ...] | None:
        if not task.zipf:
            return None  # withheld pairs alone leave all rules equally frequent
        withheld = task.named_options.get("withheld", 0)
        return frequencies(task.num_rules, task.zipf, withheld, self.num_tokens(task))

    def check(self, task: "Task") -> None:
        withheld = task.named_options.get("withheld", 0)
        if withheld > task.num_rules - 2:
            raise ValueError(
                f"withheld={withheld} of {task.num_rules} rules leaves rules that no other one follows; "
                f"expected at most {task.num_rules - 2}."
            )
        if task.setting == "classification" and task.noise >= 0.5:
            raise ValueError(
                f"noise={task.noise!r} flips half of the labels or more; expected a probability below 0.5."
            )
        if task.shell and task.shift:
            raise ValueError("shell and shift cannot be set together: the ball moves inputs. Leave one out.")
        least = min(self.rule_probs(task) or (1.0,))
        if least * task.num_rules < LEAST_SHARE:
            raise ValueError(
                f"zipf={task.zipf!r} gives the rarest of {task.num_rules} rules 1 token in {1 / least:,.0f}; "
                f"expected at least 1 in {task.num_rules / LEAST_SHARE:,.0f}. Take a smaller zipf."
            )

    def check_variant(self, task: "Task", variant: str) -> None:
        if task.hidden and self.variant(variant).router == "modular_op":
            raise ValueError(
                f"variant={variant!r} routes by the rule, which hidden=1 withholds. Take monolithic, modular "
                "or gt_modular, whose routing alone knows the rule."
            )

    def check_training(self, task: "Task", training: "Training") -> None:
        if 0 < task.num_train < training.batch_size:
            raise ValueError(
                f"num_train={task.num_train} is less than batch_size={training.batch_size}; expected a "
                "batch or more. Take more examples or smaller batches."
            )


#: of families whose rules map two numbers to one
FORM_OPTION = Option(
    "form",
    "linear",
    "of the rules: linear; network (two random layers); operation (+, -, *, min or max of weighted numbers)",
    choices=FORMS,
    later=True,
)
#: of families of sequences, besides the others
SEQUENCE_OPTIONS = (
    Option(WITHHELD, 0, "rules that never follow a rule in training: the next ones by number, modulo R",
           high=10_000, later=True, keyed=False, integer=True),
)  # fmt: skip
SEQUENCE_CONDITIONS = (
    Condition("len50", "50 tokens", seq_len=50),
    Condition("len100", "100 tokens", seq_len=100),
    Condition(WITHHELD, "only withheld pairs of rules", options={"pairs": WITHHELD}, of_option=WITHHELD),
)
