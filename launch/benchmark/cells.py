"""What a request for measurements asks for: JSON-able, as it is handed to a process of its own."""

from collections.abc import Mapping
from typing import Any

from modtf.models.base import ModularModel
from modtf.models.build import build
from modtf.population import Population
from modtf.task import Task

Request = Mapping[str, Any]
TASKS = 5  # of a published cell; each with as many seeds


def population_of(request: Request, members: int | None = None) -> Population:
    """The members: several have an axis, one alone has none.

    Args:
        request: with `arch`, `num_rules`, `task` (its options) and `members`.
        members: another number of them.
    """
    task = Task(request["arch"], num_rules=request["num_rules"], **request["task"])
    members = request["members"] if members is None else members
    if members == 1:
        return Population.of(task)
    tasks = [task.replace(data_seed=i % TASKS) for i in range(members)]
    return Population.of(tasks, [i // TASKS for i in range(members)])


def model_of(
    request: Request, variant: str, population: Population, dtype: str | None = None
) -> ModularModel:
    """The model of a variant, with its options: `router` by variant, and `model`."""
    options = {"router": request["router"][variant], "dtype": dtype, **request["model"]}
    return build(population, variant, request["width"], **options)


def cell_columns(request: Request, variant: str) -> dict[str, Any]:
    """What a row of a table says of its cell."""
    return {
        **{key: request[key] for key in ("arch", "num_rules", "width", "members")},
        "variant": variant,
    }


def has_options(request: Request, variant: str) -> bool:
    """Whether anything differs from what `modtf.build(task, variant)` makes of itself."""
    return bool(request["task"] or request["router"][variant] or request["model"])
