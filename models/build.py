"""`modtf.build` crosses an architecture with a router, for one task or a population; `build_cell` does a
cell."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from modtf.base.checks import check_choice, check_integer
from modtf.base.memory import check_fits
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.sizes import least_parameters
from modtf.models.base import ModularModel
from modtf.models.own import MODELS, check_cell_of_model, make_model
from modtf.models.routers import ROUTERS
from modtf.tasks.cell import Cell
from modtf.tasks.memory import FLOAT
from modtf.tasks.population import Population
from modtf.tasks.protocol import MIXED
from modtf.tasks.task import Task


def build(
    task: Task | Sequence[Task] | Population,
    variant: str = "modular",
    width: int = 128,
    seed: int | Sequence[int] | None = None,
    *,
    dtype: str | None = None,
    router: Mapping[str, Any] | None = None,
    architecture: str | None = None,
    **options: Any,
) -> ModularModel:
    """Build a model of a task, or of a population of them (lists of tasks and seeds).

    The initial weights are a function of (task, seed). Member i starts from exactly the weights that
    `task[i]` with `seed[i]` has alone.

    Args:
        task: a task, or the tasks of a population, which must have one shape.
        variant: the name of one of the family's variants ("monolithic", "modular", "modular_op", "gt_modular"
            if the family has none of its own), or of a registered router.
        width: e; the inner width is d = 4e.
        seed: the seed of the initial weights, or one per member; 0 by default.
        dtype: "float32" (default), "float64" or "mixed_bfloat16".
        router: the router's own options, such as `{"modules": 16}`.
        architecture: the architecture's name; by default that of the variant or of the task's family.
        **options: the architecture's own options, such as `cell="simple"` (rnn).

    Returns:
        A `keras.Model`: `model(features)` gives `{"target": [B, ...], "activation": [B, ..., M]}`.

    Raises:
        ValueError: if a variant, architecture or option is unknown, or if the width is too small for the
            modules or too large for the memory.

    Example:
        >>> model = modtf.build(modtf.Task(num_rules=8), variant="modular", width=128)
        >>> model.num_parameters
        564105
    """
    population = Population.of(task, seed)
    runs = population.family.variant(variant)
    if runs.router not in ROUTERS:
        names = [known.name for known in population.family.variants]
        check_choice("variant", variant, dict.fromkeys([*names, *ROUTERS]))
    architecture = population.family.network(variant, architecture)
    population.family.check_variant(population.task, variant)
    if not isinstance(router, Mapping | None):
        raise ValueError(f"router={router!r} is not valid; expected a dict with the router's options.")
    router, options = runs.options(router or {}, options)
    check_choice("architecture", architecture, ARCHITECTURES)
    check_choice("dtype", dtype, (None, "float32", "float64", MIXED))
    width = check_integer("width", width, 1)
    least = FLOAT * len(population) * least_parameters(architecture, width)
    mend = "Choose a smaller width or fewer members."
    check_fits(f"width={width} with {len(population)} members", {"parameters": least}, mend)
    return ARCHITECTURES[architecture](population, variant, width, router=router, dtype=dtype, **options)


def trains_alone(cell: Cell) -> bool:
    """Return whether the members of a cell train one after the other.

    This holds for registered models, and for architectures without a members axis.
    """
    if cell.runs in MODELS and cell.runs in ROUTERS:
        raise ValueError(
            f"A registered model and a router have the same name, {cell.runs!r}. Rename one of them."
        )
    return cell.runs in MODELS or not ARCHITECTURES[cell.network].has_members_axis


def build_cell(cell: Cell, population: Population) -> keras.Model:
    """Build the model of a cell's members, or of some of them; of a single member if `trains_alone`."""
    if trains_alone(cell) and cell.runs in MODELS:
        check_cell_of_model(cell)
        _, options = cell.task.family.variant(cell.variant).options({}, cell.model)
        return make_model(cell.runs, population.task, cell.width, population.seeds[0], options)
    return build(
        population,
        cell.variant,
        cell.width,
        dtype=cell.protocol.training.dtype,
        router=cell.router,
        architecture=cell.architecture,
        **cell.model,
    )


def parameters_of_member(model: keras.Model) -> int:
    """Return the number of trainable parameters of one member of a population, or of any model."""
    if isinstance(model, ModularModel):
        return model.num_parameters
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
