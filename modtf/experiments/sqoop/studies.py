"""A study of module networks and plain networks on SQOOP: 12 cells of five models, about half a core-hour.

    python launch/sweep.py --study=sqoop_quick --out=runs/sqoop_quick

Five or two objects in an image, six symbols, one right-hand object per left-hand object in training, images
of 32 x 32 pixels, width 8, 800 steps under a cosine schedule. Each data seed has its own pairs.
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
    """Return every variant of the family with five and with two objects."""
    tasks = grid(arch=FAMILY, preset="quick", symbols=SYMBOLS, side=SIDE, examples=PER_PAIR * SYMBOLS)
    return (tasks * grid(objects=[5, 2]) * grid(variant=default_variants(FAMILIES[FAMILY]))).cells()
