"""The protocol, which says how a cell is trained and evaluated."""

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from modtf.base.checks import check_choice, check_integer, check_names, check_number, check_type
from modtf.tasks.condition import IID

if TYPE_CHECKING:
    from modtf.tasks.task import Task


OPTIMIZERS = ("adam", "sgd")
SCHEDULES = ("cosine", "cosine_epochs")
PRECISIONS = ("float32", "tf32", "mixed_bfloat16")
MIXED = "mixed_bfloat16"
PLACES = ("auto", "host", "device")  # where data are made; not part of a protocol
STRATEGIES = ("auto", "mirrored", "members")  # how devices share training; not part of a protocol
KERNELS = ("cpu", "accelerator")  # the device that they suit; not part of a protocol
SMALLEST, LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127  # normal numbers of float32
MOST = 10**12  # steps, or examples of a batch
TRAINING_FACTOR = 10  # how many times smaller evaluations are while training


def tail_length(evaluations: int) -> int:
    """Return the default number of evaluations after the start that form the checkpoint "tail".

    These are the last ten, but at most half of all, because the first half is not the end of training.
    """
    return max(1, min(10, evaluations // 2))


def tail_of(evaluations: Any) -> Any:
    """Return the last of all evaluations, in order, that form the default "tail".

    If there are several evaluations, the first one is from before training (after a warm start, if there is
    one), and the tail is half of the others, at most ten.
    """
    return evaluations[-tail_length(len(evaluations) - 1) :]


def final_of(evaluations: Any, scheduled: bool) -> Any:
    """Return the last of all evaluations, in order, by which trained models are compared.

    If the learning rate has a schedule, it is the last one, because before it large rates are still behind.
    At a constant rate it is the default "tail".
    """
    return evaluations[-1:] if scheduled else tail_of(evaluations)


#: fields added after the first published results -> their defaults
LATER: dict[str, Any] = {
    "optimizer": "adam", "momentum": 0.0, "schedule": None, "weight_decay": 0.0, "tail": 0,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Training:
    """The training of a model. A family's `published` protocol holds the published values."""

    steps: int
    learning_rate: float = 1e-4
    batch_size: int = 256
    clipnorm: float | None = None  # of one member's gradient
    evaluations: int = 20  # during training, evenly spaced, on validation data
    #: of matrix products; "tf32" and "mixed_bfloat16" are faster on devices that have them, and less precise
    precision: str = "float32"
    optimizer: str = "adam"
    momentum: float = 0.0  # of "sgd"
    #: of the learning rate: "cosine" falls to 0 with every step; "cosine_epochs" falls as many times as there
    #: are `evaluations`, whether or not these divide the steps
    schedule: str | None = None
    weight_decay: float = 0.0  # coupled: this multiple of a weight is added to its gradient, after clipping
    #: evaluations in the last tenth of training, each on its own test data, whose mean is the checkpoint
    #: "tail"; 0: the mean over the last of the `evaluations`, all on the same data, see `tail_length`
    tail: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluations"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1, MOST))
        object.__setattr__(self, "tail", check_integer("tail", self.tail, 0, MOST))
        rate = check_number("learning_rate", self.learning_rate, SMALLEST, LARGEST)
        object.__setattr__(self, "learning_rate", rate)
        if self.clipnorm is not None:
            norm = check_number("clipnorm", self.clipnorm, SMALLEST, LARGEST)
            object.__setattr__(self, "clipnorm", norm)  # 1 and 1.0 are one protocol, with one hash
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, (None, *SCHEDULES))
        for name, high in (("momentum", 1.0), ("weight_decay", LARGEST)):
            object.__setattr__(self, name, check_number(name, getattr(self, name), 0.0, high))
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(
                f"momentum={self.momentum!r} has no meaning for optimizer={self.optimizer!r}. Leave it out."
            )

    @property
    def dtype(self) -> str | None:
        """The dtype with which `modtf.build` makes a model of this precision."""
        return self.precision if self.precision == MIXED else None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The amount of data that an evaluation reads."""

    batches: int = 100  # under each condition
    batch_size: int = 256
    tokens: int = 1_000_000  # for the activation matrix
    activation_batch_size: int = 256  # examples per batch, for the activation matrix and `adaptation`
    draws: int = 100  # rule distributions for `adaptation`
    tokens_per_draw: int = 10_000
    conditions: tuple[str, ...] | None = None  # names of the family's besides "iid"; None for all of them

    def __post_init__(self) -> None:
        for name in ("batches", "batch_size", "tokens", "activation_batch_size", "draws", "tokens_per_draw"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1))
        if self.conditions is not None:
            object.__setattr__(self, "conditions", check_names("conditions", self.conditions))

    def names(self, task: "Task") -> tuple[str, ...]:
        """Return the conditions of a task besides "iid". By default they are all of its family's, and those
        that belong to an option that the task sets."""
        if self.conditions is not None:
            return self.conditions
        more = (c.name for c in task.family.more_conditions if c.of_option in task.named_options)
        return (*task.family.condition_names, *more)

    def tokens_of(self, task: "Task") -> int:
        """Return the tokens for the activation matrix of a task.

        There are more if some of R rules would be missing in one of a million evaluations. If rules are
        unequally frequent, the rarest rule has as many tokens as if all were equal.
        """
        probs, rules = task.family.rule_probs(task), task.num_rules
        tokens = max(self.tokens, math.ceil(rules * math.log(1e6 * rules)))
        return tokens if probs is None else math.ceil(tokens / (min(probs) * len(probs)))

    def smaller(self, factor: float, conditions: tuple[str, ...] | None = (IID,)) -> "Evaluation":
        """Return an evaluation for use during training.

        It has `factor` times less data, and the training condition only.
        """

        def fewer(number: int, at_least: int) -> int:
            return min(number, max(at_least, int(number // factor)))

        return replace(
            self,
            batches=fewer(self.batches, 1),
            tokens=fewer(self.tokens, 2_560),
            draws=fewer(self.draws, 5),
            tokens_per_draw=fewer(self.tokens_per_draw, 2_560),
            conditions=conditions,
        )


@dataclass(frozen=True)
class Protocol:
    """Training and evaluation of one cell.

    Example:
        >>> Protocol.published(Task()).training.steps
        100000
    """

    training: Training
    evaluation: Evaluation

    def __post_init__(self) -> None:
        check_type("training", self.training, Training)
        check_type("evaluation", self.evaluation, Evaluation)

    @classmethod
    def published(cls, task: "Task", variant: str = "") -> "Protocol":
        """Return the paper's protocol, or that of a variant if the paper trained it in another way."""
        own = task.family.published_training(task, variant)
        return task.family.published(task).protocol.replace(**own)

    @classmethod
    def quick(cls, task: "Task") -> "Protocol":
        """Return a protocol for a first result, in minutes on two cores. It is not the paper's."""
        return task.family.quick(task).protocol

    def replace(self, **changes: Any) -> "Protocol":
        """Return a copy with other `Training` or `Evaluation` fields: `replace(steps=1000)`.

        `batch_size` is that of training.

        Raises:
            ValueError: if neither has a field of this name.
        """
        of_training = {k: v for k, v in changes.items() if k in Training.__dataclass_fields__}
        of_evaluation = {k: v for k, v in changes.items() if k not in of_training}
        for name in of_evaluation:
            known = dict.fromkeys([*Training.__dataclass_fields__, *Evaluation.__dataclass_fields__])
            check_choice("protocol field", name, known)
        return Protocol(replace(self.training, **of_training), replace(self.evaluation, **of_evaluation))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict. Later fields are absent at their default, so that old cells keep their
        hashes."""
        return {
            part: {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in values.items()
                if LATER.get(name, ...) != value
            }
            for part, values in asdict(self).items()
        }


@dataclass(frozen=True)
class Preset:
    """A protocol, and the other defaults of `launch/run.py`."""

    num_rules: int
    width: int
    tasks: int
    seeds: int
    protocol: Protocol

    def shortened(self, steps: int) -> Protocol:
        """Return a protocol of fewer steps, with evaluations that read as many times less data."""
        factor, sizes = self.protocol.training.steps / steps, self.protocol.evaluation
        sizes = sizes.smaller(factor, sizes.conditions) if factor > 1 else sizes
        return Protocol(replace(self.protocol.training, steps=steps), sizes)


PRESETS = {
    "quick": "quick",
    "paper": "published",
    "smoke": "smoke",
}  # name on the command line -> method of a `Family`


def preset(name: str, task: "Task") -> Preset:
    """Return the preset of a name for a task."""
    check_choice("preset", name, PRESETS)
    return getattr(task.family, PRESETS[name])(task)
