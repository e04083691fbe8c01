"""A first study: 24 cells of 3 or 5 models, in an hour or so on two cores.

    python launch/sweep.py --study=quick --out=runs/quick

Every registered family with a free number of rules, in both settings, with the four published variants, in
the sizes and with the short protocol of `launch/run.py`. This fills each figure of the report, but it is too
small for the paper's claims.
"""

from modtf.models.routers import default_variants
from modtf.studies.grid import grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell
from modtf.tasks.families import with_free_rules


@register_study("quick")
def cells() -> list[Cell]:
    """Return every family x setting x published variant, those of plug-ins included."""
    return [
        cell
        for arch, family in with_free_rules().items()
        for cell in grid(
            arch=arch, setting=list(family.settings), variant=default_variants(family), preset="quick"
        ).cells()
    ]
