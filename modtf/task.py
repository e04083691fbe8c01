"""The vocabulary of the study: what a task, a cell and a member are. No TensorFlow here."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral
from typing import Any

ARCHITECTURES = ("mlp", "mha", "rnn")
SETTINGS = ("regression", "classification")
SEARCHES = ("v1", "v2")
SPLITS = ("train", "validation", "test")
TRAINING_LENGTH = 10  # tokens of a training sequence (mha, rnn), as published
RNN_INPUTS = 32  # D, the width of an rnn token and of its hidden state


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raises `ValueError` naming what was received and what was expected."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; expected one of {', '.join(map(str, choices))}.")


def check_integer(name: str, value: Any, low: int) -> int:
    """`value` as a plain `int`; raises `ValueError` unless it is an integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name}={value!r} is not valid; expected an integer of at least {low}.")
    return int(value)


@dataclass(frozen=True)
class Task:
    """A rule-based task: every token has one of `num_rules` rules, and the rule gives its label.

    Raises:
        ValueError: on an unknown value, or a combination that has no meaning.

    Example:
        >>> Task(arch="mha", num_rules=8, search="v2").name
        'mha_v2_regression_r8_task0'
    """

    arch: str = "mlp"  # which rules, and which network they suit: "mlp", "mha" or "rnn"
    setting: str = "regression"  # or "classification": whether the output is at least 0
    num_rules: int = 2  # R
    search: str | None = None  # mha only: "v1" scalar keys, "v2" unit vectors in the plane
    data_seed: int = 0  # which task of its kind; 0-4 are the published ones
    target: str = "output"  # or "state" (rnn regression): the whole hidden state, 32 numbers a token

    def __post_init__(self) -> None:
        check_choice("arch", self.arch, ARCHITECTURES)
        check_choice("setting", self.setting, SETTINGS)
        object.__setattr__(self, "num_rules", check_integer("num_rules", self.num_rules, 2))
        object.__setattr__(self, "data_seed", check_integer("data_seed", self.data_seed, 0))
        check_choice("target", self.target, ("output", "state"))
        if self.arch == "mha":
            object.__setattr__(self, "search", self.search or SEARCHES[0])
            check_choice("search", self.search, SEARCHES)
        elif self.search is not None:
            raise ValueError(
                f"search={self.search!r} has no meaning for arch={self.arch!r}: only mha searches. "
                "Leave search out, or take arch='mha'."
            )
        if self.target == "state" and (self.arch, self.setting) != ("rnn", "regression"):
            raise ValueError(
                "target='state' is the hidden state of an rnn regression task, "
                f"received arch={self.arch!r}, setting={self.setting!r}. Leave target out."
            )

    @property
    def family(self) -> str:
        """The kind of rules, with the search version where there is one: "mlp", "mha_v2", ..."""
        return "_".join(filter(None, (self.arch, self.search)))

    @property
    def name(self) -> str:
        """A readable label, unique among tasks: `mha_v2_regression_r8_task0`."""
        state = "_state" if self.target == "state" else ""
        return f"{self.family}_{self.setting}{state}_r{self.num_rules}_task{self.data_seed}"

    @property
    def is_sequence(self) -> bool:
        """Whether an example is a sequence of tokens (mha, rnn) or one token (mlp)."""
        return self.arch != "mlp"

    @property
    def token_width(self) -> int:
        """Numbers per token in `inputs`: 2 (mlp), 4R or 6R (mha v1, v2), 32 (rnn)."""
        return {"mlp": 2, "mha_v1": 4 * self.num_rules, "mha_v2": 6 * self.num_rules, "rnn": RNN_INPUTS}[
            self.family
        ]

    @property
    def target_width(self) -> int | None:
        """Width of a token's target, None for a plain number."""
        return RNN_INPUTS if self.target == "state" else None

    @property
    def shape_key(self) -> "Task":
        """The task without what members of one population may differ in."""
        return replace(self, data_seed=0)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able dict; `Task(**task.to_dict())` is the task again."""
        return asdict(self)

    def identity(self) -> dict[str, Any]:
        """What defines the task scientifically. A field added later counts only where it is not the
        default, so the random numbers of today's tasks stay what they are."""
        published = ("arch", "setting", "num_rules", "search", "data_seed")
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name in published or getattr(self, field.name) != field.default
        }


def science_hash(value: Any, digest_size: int = 8) -> str:
    """A stable hexadecimal hash of JSON-able `value`, the same on every machine and Python."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=digest_size).hexdigest()


def as_members(
    task: "Task | Sequence[Task]", seed: int | Sequence[int]
) -> tuple[list[Task], list[int], bool]:
    """Reads a task or a population of them.

    Args:
        task: one task, or one per member, all of one shape (they may differ in `data_seed`).
        seed: one seed, or one per member.

    Returns:
        tasks, seeds (both of length P) and whether this is a population (lists were given).

    Raises:
        ValueError: no task, a seed that is none, lists of different or no length, or tasks of different
            shapes.
    """
    if isinstance(task, Task):
        if isinstance(seed, Iterable):
            raise ValueError(f"One task was given with seed={seed!r}; give one seed, or lists of both.")
        return [task], [check_integer("seed", seed, 0)], False
    tasks = list(task) if isinstance(task, Iterable) else [task]
    if not all(isinstance(t, Task) for t in tasks):
        raise ValueError(f"Expected a modtf.Task or a list of them, received {task!r}.")
    if not isinstance(seed, Iterable):
        raise ValueError(
            f"A population of {len(tasks)} tasks needs a list of as many seeds, received {seed!r}."
        )
    seeds = [check_integer("seed", s, 0) for s in seed]
    if not tasks or len(tasks) != len(seeds):
        raise ValueError(
            f"A population needs as many tasks as seeds, at least one: {len(tasks)} and {len(seeds)}."
        )
    shapes = {t.shape_key for t in tasks}
    if len(shapes) > 1:
        raise ValueError(
            "The members of a population may differ in data_seed alone, received the shapes "
            f"{', '.join(sorted(t.name for t in shapes))}. Build one population per shape."
        )
    return tasks, seeds, True
