"""A quick study of SQOOP: 8 cells of five models, 40 core-minutes.

    python launch/sweep.py --study=sqoop_quick --out=runs/sqoop_quick

Two or five objects in an image, six symbols, one right-hand object per
left-hand object in training, images of 32 x 32 pixels, width 8. Two objects take 800 steps and five 1,500, at
a constant learning rate. Each data seed has its own pairs.
"""

from modtf.experiments.questions.sets import SQOOP
from modtf.models.routers import default_variants
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES

SYMBOLS, SIDE = 6, 32
PER_PAIR = 30_000  # examples of training for each pair, as published


@register_study("sqoop_quick")
def cells() -> list[Cell]:
    """Return every variant of the family with two and with five objects."""
    return (tasks([2, 5]) * networks()).cells()


def tasks(objects: int | list[int]) -> Grid:
    """Return the tasks with so many objects."""
    shared = grid(arch=SQOOP, preset="quick", symbols=SYMBOLS, side=SIDE, examples=PER_PAIR * SYMBOLS)
    return shared * grid(objects=objects)


def networks() -> Grid:
    """Return every variant of the family."""
    return grid(variant=default_variants(FAMILIES[SQOOP]))
