"""A study of module networks and plain networks on SQOOP: 8 cells of five models, about 40 core-minutes.

    python launch/sweep.py --study=sqoop_quick --out=runs/sqoop_quick

Two or five objects in an image, six symbols, one right-hand object per left-hand object in training, images
of 32 x 32 pixels, width 8. Two objects take 800 steps and five 1,500, at a constant learning rate. Each data
seed has its own pairs.
"""

from modtf.cell import Cell
from modtf.experiments.sqoop import FAMILY
from modtf.families import FAMILIES
from modtf.models.routers import default_variants
from modtf.studies.grid import grid
from modtf.studies.load import register_study

SYMBOLS, SIDE = 6, 32
PER_PAIR = 30_000  # examples of training for each pair, as published


@register_study("sqoop_quick")
def cells() -> list[Cell]:
    """Return every variant of the family with two and with five objects."""
    tasks = grid(arch=FAMILY, preset="quick", symbols=SYMBOLS, side=SIDE, examples=PER_PAIR * SYMBOLS)
    return (tasks * grid(objects=[2, 5]) * grid(variant=default_variants(FAMILIES[FAMILY]))).cells()
