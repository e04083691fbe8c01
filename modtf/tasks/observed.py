"""The additional outputs of a model: routed layers and probes. It needs no TensorFlow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modtf.base.checks import check_integer, check_name


@dataclass(frozen=True)
class Place:
    """One of several routed layers of a model, whose output is "activation_NAME" [B, tokens, M].

    A model without this output has no rows for the layer.

    Args:
        name: in outputs, results and files; "" for a single routed layer, whose output is "activation".
        num_rules: R of its activation matrix.
        rule_names: the names of its rows for readers.
        tokens: the tokens of an example that are routed there, a slice or their numbers; None for all.
        rules: the row of each of the family's rules, by number; None for a rule that never occurs there or
            does not count. By default rules are rows.

    Raises:
        ValueError: if a row does not exist.

    Example:
        >>> Place("root", 2, ("left_of", "above"), tokens=(2,), rules=(None, None, 0, 1)).rows(4)
        (-1, -1, 0, 1)
    """

    name: str
    num_rules: int
    rule_names: tuple[str, ...] | None = None
    tokens: slice | tuple[int, ...] | None = None
    rules: Sequence[int | None] | Mapping[int, int | None] | None = None

    def __post_init__(self) -> None:
        if self.name:
            check_name("a place", self.name)
        check_integer(f"The place {self.name!r}: num_rules", self.num_rules, 1)
        if self.rule_names is not None and len(self.rule_names) != self.num_rules:
            raise ValueError(
                f"The place {self.name!r} has num_rules={self.num_rules} and {len(self.rule_names)} "
                "rule_names; expected as many names as rules."
            )

    def rows(self, num_rules: int) -> tuple[int, ...]:
        """Return the row of each of the family's `num_rules` rules, -1 for none."""
        rules = range(num_rules) if self.rules is None else self.rules
        by_rule = rules if isinstance(rules, Mapping) else dict(enumerate(rules))
        each = [by_rule.get(rule) for rule in range(num_rules)]
        rows = tuple(-1 if row is None else int(row) for row in each)
        if max(rows) >= self.num_rules or min(rows) < -1 or set(by_rule) - set(range(num_rules)):
            raise ValueError(
                f"The place {self.name!r} has rules={self.rules!r}; expected for each of {num_rules} rules "
                f"None or a row number below num_rules={self.num_rules}."
            )
        return rows

    @property
    def output(self) -> str:
        """The model's output."""
        return at_place("activation", self.name)


def at_place(what: str, place: str) -> str:
    """Return the name of an output, array or measure at a routed layer, "alignment_root".

    A single routed layer has the bare name.
    """
    return f"{what}_{place}" if place else what


@dataclass(frozen=True)
class Probe:
    """An output that is accumulated while conditions are measured, and the rows made from it.

    Args:
        name: for errors.
        output: the model's output; a model without it has no rows.
        accumulator: maps a population, and the last axis of the output, to a `keras.metrics.Metric` with
            `update_state(target, output)`, whose variables have names; or "package.module:Class". Its
            attribute `reads`, "target" by default, may be "rule", "inputs" or several of them.
        rows: maps {condition: {name of a variable: its value at the end of the condition}} to
            {(measure, condition): value}, one number, or one per member; the key may end in a place.
        while_training: whether evaluations during training report it, too.

    Raises:
        ValueError: if the name is invalid.
    """

    name: str
    output: str
    accumulator: Callable[[Any, int], Any] | str
    rows: Callable[[Mapping[str, Mapping[str, Any]]], Mapping[tuple[str, str], Any]] | str
    while_training: bool = False

    def __post_init__(self) -> None:
        check_name("a probe", self.name)
        check_name("an output", self.output)
