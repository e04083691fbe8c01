r"""Studies of SQOOP: 8 cells, about 40 core-minutes; 4 long ones, about 50; 4 to find their rates, about 30.

    python launch/sweep.py --study=sqoop_quick --out=runs/sqoop_quick

Each cell has five models. Two or five objects in an image, six symbols, one right-hand object per left-hand
object in training, images of 32 x 32 pixels, width 8. Two objects take 800 steps and five 1,500, at a
constant learning rate. Each data seed has its own pairs.

    python launch/tune.py --study=sqoop_long_tuning --space learning_rate=0.0005,0.002,0.008 \
        --out=runs/sqoop_rates
    python launch/sweep.py --study=sqoop_long --best=runs/sqoop_rates --out=runs/sqoop_long

The study `sqoop_long` repeats the part with two objects for 4,000 steps, at the rate that suits each network.
The search finds that rate on data seed 5, which is not reported: 4 networks, 12 trials of one model.
"""

from modtf.cell import Cell
from modtf.experiments.sqoop import FAMILY
from modtf.families import FAMILIES
from modtf.models.routers import default_variants
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study

SYMBOLS, SIDE = 6, 32
PER_PAIR = 30_000  # examples of training for each pair, as published
LONG, TUNED_ON = 4_000, 5  # steps, and the data seed of the search, which `sqoop_long` does not use


@register_study("sqoop_quick")
def cells() -> list[Cell]:
    """Return every variant of the family with two and with five objects."""
    return (_tasks([2, 5]) * _networks()).cells()


@register_study("sqoop_long")
def long() -> list[Cell]:
    """Return every variant with two objects and more steps."""
    return (_tasks(2) * grid(**{"training.steps": LONG}) * _networks()).cells()


@register_study("sqoop_long_tuning")
def tuning() -> list[Cell]:
    """Return the cells whose rates are searched for `sqoop_long`."""
    return (_tasks(2) * grid(members=((TUNED_ON, 0),), **{"training.steps": LONG}) * _networks()).cells()


def _tasks(objects: int | list[int]) -> Grid:
    """Return the tasks with so many objects."""
    shared = grid(arch=FAMILY, preset="quick", symbols=SYMBOLS, side=SIDE, examples=PER_PAIR * SYMBOLS)
    return shared * grid(objects=objects)


def _networks() -> Grid:
    return grid(variant=default_variants(FAMILIES[FAMILY]))
