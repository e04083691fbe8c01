r"""Studies of SQOOP: a quick one (40 core-minutes), a long one (80), and the search for its rates (60).

    python launch/sweep.py --study=sqoop_quick --out=runs/sqoop_quick

The quick study has 8 cells of five models. Two or five objects in an image, six symbols, one right-hand
object per left-hand object in training, images of 32 x 32 pixels, width 8. Two objects take 800 steps and
five 1,500, at a constant learning rate. Each data seed has its own pairs.

    python launch/sweep.py --study=sqoop_long --out=runs/sqoop_long

The study `sqoop_long` repeats the part with two objects for 4,000 steps, at the rate that suits each network,
`RATES`. These commands searched it on data seed 5, which is not reported: 14 trials of one model. Two
networks had their rate at the end of the first search, so the next rate was tried.

    python launch/tune.py --study=sqoop_long_tuning --out=runs/sqoop_rates \
        --space learning_rate=0.0005,0.002,0.008
    python launch/tune.py --study=sqoop_long_tuning --out=runs/sqoop_rates --variant=all_all_all_bn \
        --space learning_rate=0.0005,0.002,0.008,0.032
    python launch/tune.py --study=sqoop_long_tuning --out=runs/sqoop_rates --variant=all_sub_all_bn \
        --space learning_rate=0.000125,0.0005,0.002,0.008
"""

from modtf.experiments.questions.sets import SQOOP
from modtf.models.routers import default_variants
from modtf.studies.grid import Grid, grid, together
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES

SYMBOLS, SIDE = 6, 32
PER_PAIR = 30_000  # examples of training for each pair, as published
LONG, TUNED_ON = 4_000, 5  # steps, and the data seed of the search, which `sqoop_long` does not use
#: network -> the rate with the least validation error in the search
RATES = {"all_all_all_bn": 0.008, "all_sub_all_bn": 0.0005, "film": 0.002, "mac": 0.002}


@register_study("sqoop_quick")
def cells() -> list[Cell]:
    """Return every variant of the family with two and with five objects."""
    return (_tasks([2, 5]) * _networks()).cells()


@register_study("sqoop_long")
def long() -> list[Cell]:
    """Return every variant with two objects and more steps, at its own rate."""
    networks = together(variant=list(RATES), **{"training.learning_rate": list(RATES.values())})
    return (_tasks(2) * grid(**{"training.steps": LONG}) * networks).cells()


@register_study("sqoop_long_tuning")
def tuning() -> list[Cell]:
    """Return the cells whose rates are searched for `sqoop_long`."""
    return (_tasks(2) * grid(members=((TUNED_ON, 0),), **{"training.steps": LONG}) * _networks()).cells()


def _tasks(objects: int | list[int]) -> Grid:
    """Return the tasks with so many objects."""
    shared = grid(arch=SQOOP, preset="quick", symbols=SYMBOLS, side=SIDE, examples=PER_PAIR * SYMBOLS)
    return shared * grid(objects=objects)


def _networks() -> Grid:
    return grid(variant=default_variants(FAMILIES[SQOOP]))
