"""The smallest study that runs everything: 24 cells of 2 models, in two minutes on two cores.

    python launch/sweep.py --study=testing --out=/tmp/testing

Every registered family with a free number of rules, in both settings, with the four published variants. It
has two rules, width 4, a handful of steps, and a tiny evaluation under the training condition and one other.
Its numbers mean nothing.
"""

from dataclasses import replace

from modtf.models.routers import default_variants
from modtf.studies.grid import grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell
from modtf.tasks.families import with_free_rules
from modtf.tasks.protocol import Evaluation, Protocol, Training

NUM_RULES = 2
TRAINING = Training(steps=4, batch_size=8, evaluations=2)
EVALUATION = Evaluation(
    batches=2, batch_size=8, tokens=80, activation_batch_size=8, draws=5, tokens_per_draw=80
)


@register_study("testing")
def cells() -> list[Cell]:
    """Return every family x setting x published variant, those of plug-ins included."""
    return [
        cell
        for arch, family in with_free_rules().items()
        for cell in grid(
            arch=arch,
            setting=list(family.settings),
            num_rules=NUM_RULES,
            width=4,
            variant=default_variants(family),
            protocol=Protocol(TRAINING, replace(EVALUATION, conditions=(family.headline,))),
            members=((0, 0), (1, 1)),
        ).cells()
    ]
