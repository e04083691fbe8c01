"""`modtf.build`: architecture x router, for one task or a population."""

from collections.abc import Sequence
from typing import Any

from modtf.models.architectures import ARCHITECTURES
from modtf.models.base import ModularModel
from modtf.models.routers import ROUTERS
from modtf.task import Task, as_members, check_choice, check_integer


def build(
    task: Task | Sequence[Task],
    variant: str = "modular",
    width: int = 128,
    seed: int | Sequence[int] = 0,
    *,
    dtype: str | None = None,
    **options: Any,
) -> ModularModel:
    """Builds a model of a task, or of a population of them (lists of tasks and seeds).

    The initial weights are a function of (task, seed): member i starts from exactly the weights of
    `task[i]` with `seed[i]` alone.

    Args:
        task: a task, or the tasks of a population, of one shape.
        variant: "monolithic", "modular", "modular_op" or "gt_modular".
        width: e; the inner width is d = 4e.
        seed: of the initial weights, or one per member.
        dtype: "float32" (default) or "float64".
        **options: the architecture's own, such as `cell="simple"` (rnn).

    Returns:
        A `keras.Model`: `model(features)` gives `{"target": [B, ...], "activation": [B, ..., M]}`.

    Raises:
        ValueError: on an unknown variant or option, or a width too small for the modules.

    Example:
        >>> model = modtf.build(modtf.Task(num_rules=8), variant="modular", width=128)
        >>> model.num_parameters
        564105
    """
    tasks, seeds, population = as_members(task, seed)
    check_choice("variant", variant, tuple(ROUTERS))
    check_integer("width", width, 1)
    return ARCHITECTURES[tasks[0].arch](
        tasks=tasks, seeds=seeds, variant=variant, width=width, population=population, dtype=dtype, **options
    )
