"""A cell of the study: one configuration and the members that train in lock-step."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from modtf.task import Task, science_hash


@dataclass(frozen=True)
class Training:
    """How a cell is trained."""

    steps: int = 100_000
    learning_rate: float = 1e-4
    batch_size: int = 256
    clipnorm: float | None = None  # of one member's gradient
    evaluations: int = 20  # during training, evenly spaced; at each a checkpoint is written


@dataclass(frozen=True)
class Evaluation:
    """How much data an evaluation reads."""

    batches: int = 100  # of 256 examples, per length and scale
    tokens: int = 1_000_000  # for the activation matrix
    draws: int = 100  # rule distributions for `adaptation`
    tokens_per_draw: int = 10_000
    batch_size: int = 256
    lengths: tuple[int, ...] = (3, 5, 10, 20, 30)  # mha and rnn
    scales: tuple[float, ...] = (1.0, 2.0)  # 2.0 is out of distribution

    def smaller(self, factor: int) -> "Evaluation":
        """The evaluation used while training: `factor` times less data, the training setting alone."""
        return Evaluation(
            batches=max(1, self.batches // factor),
            tokens=max(2_560, self.tokens // factor),
            draws=max(5, self.draws // factor),
            tokens_per_draw=max(2_560, self.tokens_per_draw // factor),
            batch_size=self.batch_size,
            lengths=(),
            scales=(1.0,),
        )


@dataclass(frozen=True)
class Cell:
    """Architecture x setting x rules x width x variant, and the (data_seed, seed) of each member.

    Example:
        >>> Cell(Task("mlp", num_rules=8), width=32, variant="modular", members=((0, 0), (1, 0))).label
        'mlp_regression_r8_e32_modular'
    """

    task: Task  # of any member: its data_seed is not used
    width: int
    variant: str
    members: tuple[tuple[int, int], ...]
    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)

    @property
    def tasks(self) -> list[Task]:
        """One task per member."""
        shared = self.task.to_dict()
        return [Task(**{**shared, "data_seed": data_seed}) for data_seed, _ in self.members]

    @property
    def seeds(self) -> list[int]:
        """One seed per member."""
        return [seed for _, seed in self.members]

    @property
    def label(self) -> str:
        """A readable name, for folders and progress bars; never parsed."""
        task = self.task.shape_key.name.removesuffix("_task0")
        return f"{task}_e{self.width}_{self.variant}"

    def to_dict(self) -> dict[str, Any]:
        """What defines the cell scientifically, JSON-able: no path, no device."""
        task = self.task.to_dict()
        del task["data_seed"]
        return {
            "cell": {
                **task,
                "width": self.width,
                "variant": self.variant,
                "members": [list(m) for m in self.members],
            },
            "training": asdict(self.training),
            "evaluation": {f.name: _plain(getattr(self.evaluation, f.name)) for f in fields(Evaluation)},
        }

    @property
    def hash(self) -> str:
        """Names the cell's folder, beside the label."""
        return science_hash(self.to_dict(), digest_size=4)

    @property
    def folder(self) -> str:
        return f"{self.label}-{self.hash}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
