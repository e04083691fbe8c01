"""The study `first` under a cosine schedule, in part: 20 cells of the MLP, 78 to tune; 60 core-minutes.

    modtf sweep --study=first_cosine_tuning --out=studies/first_cosine_tuning
    modtf sweep --study=first_cosine --out=studies/first_cosine

The four published variants, width 32. The protocol, the reported tasks and the search for learning rates are
those of `factors_cosine`: 10,000 steps, tasks 10 to 14, each variant at the rate with the lowest validation
loss on tasks 5 to 7. All variants have the same budget. The study holds R = 8 and 2 in both settings, and
R = 32 in regression. Each of these five parts cost about 12 core-minutes on an idle core.
"""

from collections.abc import Mapping

from modtf.cell import Cell
from modtf.experiments.modarch.studies.factors_cosine import Rates, named_cells, trials
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study

VARIANTS = ("gt_modular", "modular", "modular_op", "monolithic")
#: R -> setting -> variant -> the rate with the lowest validation loss
RATES: Mapping[int, Rates] = {
    32: {
        "regression": {"gt_modular": 3e-2, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 3e-3},
    },
    8: {
        "classification": {"gt_modular": 3e-3, "modular": 1e-2, "modular_op": 3e-3, "monolithic": 3e-3},
        "regression": {"gt_modular": 3e-2, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 1e-2},
    },
    2: {
        "classification": {"gt_modular": 3e-3, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 1e-2},
        "regression": {"gt_modular": 3e-2, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 1e-2},
    },
}


def variants() -> dict[str, Grid]:
    """Return the published variants by name."""
    return {name: grid(variant=name) for name in VARIANTS}


@register_study("first_cosine_tuning")
def tuning() -> list[Cell]:
    """Return every variant at every starting rate, on tasks that are not reported."""
    return [cell for rules, rates in RATES.items() for *_, cell in trials(variants(), rates, rules)]


@register_study("first_cosine")
def cells() -> list[Cell]:
    """Return every variant at its rate, on the reported tasks."""
    return [cell for rules, rates in RATES.items() for _, cell in named_cells(variants(), rates, rules)]
