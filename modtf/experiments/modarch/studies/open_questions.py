"""The paper's open questions, 90 cells of ten models each, in about eight core-hours.

    modtf sweep --study=open_questions --out=studies/open_questions

Regression, R = 8, width 32, tasks 20 to 29, which no other study uses. The learning rate starts at 3e-3 and
falls to 0 as a cosine, in 10,000 steps (mlp) or 2,500 (rnn). A pilot should confirm rates and steps first.
One part per question:

| part | question | cells |
|---|---|---|
| unequal | does balance help or hurt if rules are unequally frequent (Zipf 0, 0.5, 1, 1.5)? | 24 |
| finite | how much data does knowing the rule save (300 to 100,000 examples)? | 32 |
| withheld | do modules compose pairs of rules that they have not seen together? | 4 |
| noise | what does label noise cost? | 8 |
| rules | do the findings hold for other rules, and if the model is not told the rule? | 14 |
| harder | outside the training inputs, and in sequences of up to 100 tokens? | 8 |
"""

from collections.abc import Mapping

from modtf.cell import VARIANTS, Cell
from modtf.experiments.modarch.studies.factors_tuning import shared_by
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study

TASKS = tuple(range(20, 30))
STEPS = {"mlp": 10_000, "rnn": 2_500}
SEVERAL = list(VARIANTS)
UNTOLD = ["monolithic", "modular", "gt_modular"]
BALANCES = ("none", "auxiliary", "bias")
SMALL = {"batches": 20, "batch_size": 128, "tokens": 12_800, "draws": 10, "tokens_per_draw": 1_280}
LONG = ("iid", "len30_scale2", "len50", "len100", "outside")


def of(arch: str, **more: object) -> Grid:
    """Return the grid that all cells of a family share, with further settings."""
    protocol: dict[str, object] = {f"evaluation.{name}": value for name, value in SMALL.items()}
    protocol |= {"training.steps": STEPS[arch], "training.learning_rate": 3e-3}
    shared = {"setting": "regression", "num_rules": 8, "width": 32, "preset": "quick", **protocol}
    return grid(arch=arch, **shared, members=tuple((task, 0) for task in TASKS), **more)


def both(**more: object) -> Grid:
    """Return the grid of the mlp, then that of the rnn."""
    return of("mlp", **more) + of("rnn", **more)


def parts() -> Mapping[str, Grid]:
    """Return the cells of every question as grids."""
    one_of_eight = sum((shared_by(1, balance) for balance in BALANCES), Grid([]))
    shell = of("mlp", variant=SEVERAL, shell=1.0)
    shell += of("rnn", variant=SEVERAL, shell=1.0, **{"evaluation.conditions": LONG})
    return {
        "unequal": both(zipf=[0.0, 0.5, 1.0, 1.5]) * one_of_eight,
        "finite": of("mlp", num_train=[300, 1_000, 3_000, 10_000, 100_000], variant=SEVERAL)
        + of("rnn", num_train=[300, 3_000, 30_000], variant=SEVERAL),
        "withheld": of("rnn", withheld=2, variant=SEVERAL),
        "noise": both(noise=0.3, variant=SEVERAL),
        "rules": of("mlp", form=["network", "operation"], variant=SEVERAL)
        + of("mlp", shift=2.0, hidden=1, variant=UNTOLD)
        + of("rnn", shift=0.3, hidden=1, variant=UNTOLD),
        "harder": shell,
    }


@register_study("open_questions")
def cells() -> list[Cell]:
    """Return the cells of all parts."""
    return [cell for part in parts().values() for cell in part.cells()]
