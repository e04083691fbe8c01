"""One task with one seed, or many in parallel, parsed once at the public functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modtf.base.checks import check_integer
from modtf.tasks.families import Family
from modtf.tasks.task import Task


@dataclass(frozen=True)
class Population:
    """The members that a model holds, a stream feeds or an evaluation measures.

    `Population.of` makes it in public functions. Internal code always works with P members, also for P = 1.

    Attributes:
        tasks: one per member; they differ in `data_seed` alone.
        seeds: one per member.
        has_axis: whether inputs and outputs have a members axis [B, P, ...]; otherwise P is 1.
    """

    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    has_axis: bool

    @classmethod
    def of(
        cls, task: "Task | Sequence[Task] | Population", seed: int | Sequence[int] | None = None
    ) -> "Population":
        """Read the tasks and seeds that a user passes.

        Args:
            task: a task, one per member (all of one shape), or a population, which is returned unchanged
                unless seeds are given.
            seed: one seed for one task, one per member for several; 0 by default.

        Raises:
            ValueError: if a value is not a task or a seed, lists are empty or differ in length, or tasks
                differ in shape.

        Example:
            >>> len(Population.of([Task(data_seed=i) for i in range(5)]))
            5
        """
        if isinstance(task, Population):
            if seed is None:
                return task
            return cls.of(list(task.tasks) if task.has_axis else task.task, seed)
        if isinstance(task, Task):
            if isinstance(seed, Iterable):
                raise ValueError(
                    f"seed={seed!r} is not valid for one task; expected one seed. Or give lists of tasks "
                    "and seeds."
                )
            return cls((task,), (check_integer("seed", 0 if seed is None else seed, 0),), False)
        return cls._of_list(task, seed)

    @classmethod
    def _of_list(cls, task: Any, seed: Any) -> "Population":
        """Read a list of tasks and one of seeds."""
        tasks = tuple(task) if isinstance(task, Iterable) else (task,)
        if not all(isinstance(t, Task) for t in tasks):
            raise ValueError(f"Expected a modtf.Task or a list of them, received {task!r}.")
        if seed is None:
            seed = [0] * len(tasks)
        if not isinstance(seed, Iterable):
            raise ValueError(
                f"seed={seed!r} is not valid; expected a list of {len(tasks)} seeds, one per task."
            )
        seeds = tuple(check_integer("seed", s, 0) for s in seed)
        if not tasks or len(tasks) != len(seeds):
            raise ValueError(
                f"The numbers of tasks and seeds are {len(tasks)} and {len(seeds)}; expected the same "
                "number, at least one."
            )
        shapes = {t.shape_key for t in tasks}
        if len(shapes) > 1:
            raise ValueError(
                "The members of a population may differ in data_seed only; received the shapes "
                f"{', '.join(sorted(t.name for t in shapes))}. Build one population per shape."
            )
        return cls(tasks, seeds, True)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Population":
        """Read what `to_dict` returned."""
        tasks = tuple(Task(**task) for task in saved["tasks"])
        return cls(tasks, tuple(saved["seeds"]), saved["has_axis"])

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as values of JSON."""
        tasks = [task.to_dict() for task in self.tasks]
        return {"tasks": tasks, "seeds": list(self.seeds), "has_axis": self.has_axis}

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def task(self) -> Task:
        """The first member's task, for what all members share."""
        return self.tasks[0]

    @property
    def family(self) -> Family:
        return self.task.family

    @property
    def members(self) -> list[tuple[Task, int]]:
        """The (task, seed) of every member."""
        return list(zip(self.tasks, self.seeds, strict=True))

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return the values that two populations must share for one's model to fit the other's data."""
        return self.task.shape_key, len(self), self.has_axis

    def with_seed(self, seed: int) -> "Population":
        """Return the same tasks, all with this seed."""
        return Population(self.tasks, (check_integer("seed", seed, 0),) * len(self), self.has_axis)

    def single_member(self, index: int) -> "Population":
        """Return one member, for a model without a members axis."""
        return Population((self.tasks[index],), (self.seeds[index],), False)

    def describe(self) -> str:
        """Return a description for errors."""
        return f"a list of {len(self)} tasks like {self.task.name}" if self.has_axis else self.task.name
