"""A cell of the study: one configuration and the members that train in lock-step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modtf.checks import check_integer
from modtf.population import Population
from modtf.protocol import Protocol
from modtf.task import Task, science_hash

#: the published ones, from least to most informed: what commands and studies run where nobody says which
VARIANTS = ("monolithic", "modular", "modular_op", "gt_modular")


@dataclass(frozen=True)
class Cell:
    """Task x width x variant, and the (data_seed, seed) of each member.

    Example:
        >>> Cell(Task(num_rules=8), width=32, variant="modular", members=((0, 0), (1, 0))).label
        'mlp_regression_r8_e32_modular'
    """

    task: Task  # of any member: its data_seed is not used
    width: int
    variant: str  # name of the router
    members: tuple[tuple[int, int], ...]
    protocol: Protocol = None  # type: ignore[assignment]  # the published one, if none is given
    router: Mapping[str, Any] = field(default_factory=dict)  # options of the router
    model: Mapping[str, Any] = field(default_factory=dict)  # options of the architecture
    architecture: str | None = None  # its name; the family's own by default

    def __post_init__(self) -> None:
        check_integer("width", self.width, 1)
        members = tuple((int(data_seed), int(seed)) for data_seed, seed in self.members)
        if not members or len(set(members)) != len(members):
            raise ValueError(f"members={self.members!r}: expected at least one (data_seed, seed), each once.")
        object.__setattr__(self, "members", members)
        if self.protocol is None:
            object.__setattr__(self, "protocol", Protocol.published(self.task))
        if self.architecture == self.task.family.architecture:
            object.__setattr__(self, "architecture", None)

    @property
    def population(self) -> Population:
        """The tasks and seeds of the members."""
        tasks = [self.task.replace(data_seed=data_seed) for data_seed, _ in self.members]
        return Population.of(tasks, [seed for _, seed in self.members])

    @property
    def label(self) -> str:
        """A readable name, for folders and progress bars; never parsed."""
        parts = [self.task.kind, f"r{self.task.num_rules}", f"e{self.width}", self.variant]
        parts += [self.architecture] if self.architecture else []
        options = {**self.router, **self.model}
        return "_".join([*parts, *(f"{name}-{value}" for name, value in options.items())])

    @property
    def columns(self) -> dict[str, Any]:
        """What tells its models from those of other cells, as columns of the results.

        Options stand in one column each for the task and the model, "search=v2" or "modules=16,cell=simple":
        those that tell it from others, "" where there are none.
        """
        model = {"architecture": self.architecture} if self.architecture else {}
        return {
            "arch": self.task.arch,
            "setting": self.task.setting,
            "task_options": _text(self.task.named_options),
            "num_rules": self.task.num_rules,
            "width": self.width,
            "variant": self.variant,
            "model_options": _text({**model, **self.router, **self.model}),
        }

    def to_dict(self) -> dict[str, Any]:
        """What defines the cell scientifically, JSON-able: no path, no device."""
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
            **self.protocol.to_dict(),
        }

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "Cell":
        """The cell that `to_dict` described."""
        from modtf.protocol import Evaluation, Training

        cell, evaluation = config["cell"], dict(config["evaluation"])
        if evaluation.get("conditions") is not None:
            evaluation["conditions"] = tuple(evaluation["conditions"])
        return cls(
            Task(**cell["task"]),
            cell["width"],
            cell["variant"],
            tuple((d, s) for d, s in cell["members"]),
            Protocol(Training(**config["training"]), Evaluation(**evaluation)),
            cell["router"],
            cell["model"],
            cell["architecture"],
        )

    @property
    def hash(self) -> str:
        """Names the cell's folder, beside the label."""
        return science_hash(self.to_dict(), digest_size=4)

    @property
    def folder(self) -> str:
        return f"{self.label}-{self.hash}"


def _text(options: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())
