"""All routers alongside each other, on two task types, 30 cells, about two core-hours.

    modtf sweep --study=docs/studies/routers.py --out=studies/routers

R = 8 rules, width 32, every router with its default options: ten tasks of the mlp, five of attention (search
v1), one seed each, with the protocol of protocols.py. With the same --out as `first`, the published variants
are trained once for both. `annealed` reaches its last temperature after two thirds of the training.
"""

from protocols import STEPS, TASKS, base

from modtf.models.routers import ROUTERS
from modtf.studies.grid import Grid, grid
from modtf.tasks.cell import Cell

APART = ("balanced", "clamped")  # other studies test them
ARCHITECTURES = ("mlp", "mha")


def routers(arch: str) -> Grid:
    """Return a point for every router, with the steps that it needs to know."""
    options = {"annealed": {"router.steps": STEPS[arch] * 2 // 3}}
    compared = [name for name in ROUTERS if name not in APART]
    return sum((grid(variant=name, **options.get(name, {})) for name in compared), Grid([]))


def cells() -> list[Cell]:
    """Return every router on both task types."""
    return sum(
        (
            grid(num_rules=8, tasks=TASKS[arch], seeds=1) * base(arch) * routers(arch)
            for arch in ARCHITECTURES
        ),
        Grid([]),
    ).cells()
