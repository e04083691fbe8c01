"""A cell of the study: one configuration and the members that train in lock-step."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modtf.base.checks import check_integer, check_options, check_type
from modtf.tasks.family import PUBLISHED
from modtf.tasks.population import Population
from modtf.tasks.protocol import Evaluation, Protocol, Training
from modtf.tasks.task import Task, science_hash

VARIANTS = tuple(variant.name for variant in PUBLISHED)

UNSAFE = re.compile(r"[^A-Za-z0-9_.,+=()\[\]{}' -]")  # not allowed in a folder's name
FREE = ("steps", "learning_rate", "precision")  # may differ where training is otherwise the published one
LONGEST = 150  # characters of a label in a folder's name


@dataclass(frozen=True)
class Cell:
    """Task x width x variant, and the (data_seed, seed) of each member.

    Example:
        >>> Cell(Task(num_rules=8), width=32, variant="modular", members=((0, 0), (1, 0))).label
        'mlp_regression_r8_e32_modular'
    """

    task: Task  # of any member: its data_seed is not used
    width: int
    variant: str  # one of the family's, or a registered router or model
    members: tuple[tuple[int, int], ...]
    protocol: Protocol = None  # type: ignore[assignment]  # the published one, if none is given
    router: Mapping[str, Any] = field(default_factory=dict)  # options of the router
    model: Mapping[str, Any] = field(default_factory=dict)  # options of the architecture
    architecture: str | None = None  # its name; that of the variant or family by default
    trainer: Mapping[str, Any] = field(default_factory=dict)  # options of the variant's trainer

    def __post_init__(self) -> None:
        check_type("task", self.task, Task)
        object.__setattr__(self, "width", check_integer("width", self.width, 1))
        for name in ("variant", "architecture"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (value is None and name == "architecture")):
                raise ValueError(f"{name}={value!r} is not valid; expected a name.")
        object.__setattr__(self, "members", _members(self.members))
        if self.protocol is None:
            object.__setattr__(self, "protocol", Protocol.published(self.task, self.variant))
        check_type("protocol", self.protocol, Protocol)
        self.task.family.check_training(self.task, self.protocol.training)
        for name in ("router", "model", "trainer"):
            object.__setattr__(self, name, check_options(name, getattr(self, name)))
        for name in sorted(set(self.router) & set(self.model)):
            raise ValueError(
                f"The option {name!r} is one of the router and of the architecture, so results could not "
                "tell them apart. Rename one of them."
            )
        if self.network == self.task.family.network(self.variant):
            object.__setattr__(self, "architecture", None)

    @property
    def population(self) -> Population:
        """The tasks and seeds of the members."""
        tasks = [self.task.replace(data_seed=data_seed) for data_seed, _ in self.members]
        return Population.of(tasks, [seed for _, seed in self.members])

    @property
    def runs(self) -> str:
        """The name of the variant's registered router, or model."""
        return self.task.family.variant(self.variant).router

    @property
    def network(self) -> str:
        """The name of the architecture that is built."""
        return self.task.family.network(self.variant, self.architecture)

    @property
    def common_protocol(self) -> Protocol:
        """The protocol with those fields that follow the network, as published, at their common values.

        They change only if the network was trained as published, apart from `FREE`. Cells may be compared if
        they agree in it, apart from the learning rate."""
        training, own = self.protocol.training, Protocol.published(self.task, self.variant).training
        if training != replace(own, **{name: getattr(training, name) for name in FREE}):
            return self.protocol
        common = Protocol.published(self.task).training
        names = self.task.family.published_training(self.task, self.variant)
        same = [name for name in names if getattr(training, name) == getattr(own, name)]
        return self.protocol.replace(**{name: getattr(common, name) for name in same})

    @property
    def checkpoint(self) -> str:
        """The default checkpoint: the family's own, or "last" in place of "tail" if the rate ends at 0.

        "tail" averages over checkpoints of a constant rate. Under a schedule their rates differ by orders of
        magnitude.
        """
        own = self.task.family.checkpoint
        return "last" if own == "tail" and self.protocol.training.schedule else own

    @property
    def label(self) -> str:
        """A readable name, for folders and progress bars. It is never parsed."""
        parts = [self.task.kind, f"r{self.task.num_rules}", f"e{self.width}", self.variant]
        parts += [self.architecture] if self.architecture else []
        options = {**self.router, **self.model, **self._of_trainer}
        return "_".join([*parts, *(f"{name}-{value}" for name, value in options.items())])

    @property
    def step_tokens(self) -> int:
        """The number of tokens in one member's training step."""
        return self.protocol.training.batch_size * self.task.family.num_tokens(self.task)

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns of the results that identify the cell's models.

        The options of the task and of the model have one column each, "search=v2" or
        "modules=16,cell=simple". It lists those always named or not at their default; "" if there are none.
        """
        model = {"architecture": self.architecture} if self.architecture else {}
        return {
            "arch": self.task.arch,
            "setting": self.task.setting,
            "task_options": _text(self.task.named_options),
            "num_rules": self.task.num_rules,
            "width": self.width,
            "variant": self.variant,
            "model_options": _text({**model, **self.router, **self.model, **self._of_trainer}),
        }

    @property
    def _of_trainer(self) -> dict[str, Any]:
        return {f"trainer.{name}": value for name, value in self.trainer.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the scientific definition of the cell, JSON-able, without paths and devices."""
        task = self.task.to_dict()
        del task["data_seed"]
        return {
            "cell": {
                "task": task,
                "width": self.width,
                "variant": self.variant,
                "router": dict(self.router),
                "model": dict(self.model),
                "architecture": self.architecture,
                "members": [list(m) for m in self.members],
            },
            **({"trainer": dict(self.trainer)} if self.trainer else {}),
            **self.protocol.to_dict(),
        }

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "Cell":
        """Return the cell of a dict from `to_dict`. Raise `ValueError` if the dict does not describe one."""
        try:
            cell = config["cell"]
            return cls(
                Task(**cell["task"]),
                cell["width"],
                cell["variant"],
                cell["members"],
                Protocol(Training(**config["training"]), Evaluation(**config["evaluation"])),
                cell["router"],
                cell["model"],
                cell["architecture"],
                config.get("trainer", {}),
            )
        except (KeyError, TypeError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else f"is not valid ({error})"
            raise ValueError(
                f"The description {reason}; expected the dict that Cell.to_dict() returns."
            ) from error

    @property
    def hash(self) -> str:
        """A hash that, after the label, names the cell's folder."""
        return science_hash(self.to_dict(), digest_size=4)

    @property
    def part_of_path(self) -> str:
        """The label as a part of a folder's name, which is valid on every file system."""
        return UNSAFE.sub("_", self.label)[:LONGEST]

    @property
    def folder(self) -> str:
        """The folder's name."""
        return f"{self.part_of_path}-{self.hash}"


def _members(value: Any) -> tuple[tuple[int, int], ...]:
    """Return `value` as pairs of seeds. Raise `ValueError` if it is anything else."""
    try:
        members = tuple((data_seed, seed) for data_seed, seed in value)
        good = bool(members) and len(set(members)) == len(members)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"members={value!r} is not valid; expected at least one pair (data_seed, seed), each once."
        )
    return tuple((check_integer("members", d, 0), check_integer("members", s, 0)) for d, s in members)


def _text(options: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())
