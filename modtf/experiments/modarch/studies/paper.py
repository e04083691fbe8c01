"""The paper's study: 800 cells of 25 models, 20,000 models.

    python launch/sweep.py --study=paper --out=runs/paper

Four families (mlp, mha with search v1 and v2, rnn) in both settings, 2 to 32 rules, widths 32 to 512, four
variants; five tasks x five seeds in each cell, all with the published protocol. On two CPU cores this takes
years: see the cost with --dry_run, and distribute it over machines with --shard or --engine=ray.
"""

from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

PUBLISHED = {"mlp": {}, "mha": {"search": ["v1", "v2"]}, "rnn": {}}

KINDS = sum((grid(arch=arch, **options) for arch, options in PUBLISHED.items()), Grid([]))


@register_study("paper")
def cells() -> list[Cell]:
    """Return all 800 cells."""
    return (
        KINDS
        * grid(
            setting=["regression", "classification"],
            num_rules=[2, 4, 8, 16, 32],
            width=[32, 64, 128, 256, 512],
            variant=["monolithic", "modular", "modular_op", "gt_modular"],
            preset="paper",
            tasks=5,
            seeds=5,
        )
    ).cells()
