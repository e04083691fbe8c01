"""The study `first` under a cosine schedule, in part: 36 cells of the MLP and the RNN, 127 to tune.

    modtf sweep --study=first_cosine_tuning --out=studies/first_cosine_tuning
    modtf sweep --study=first_cosine --out=studies/first_cosine

The four published variants, width 32, 10,000 steps, tasks 10 to 14. Protocol and search for learning rates
are those of `factors_cosine` in the MLP, and of `recurrent_cosine` in the RNN: each variant takes the rate
with the lowest validation loss on tasks 5 to 7 (MLP) or 5 and 6 (RNN). All variants of a family have the same
budget. Both settings have R = 2, 8 and 32 in the MLP and R = 2 in the RNN, which also has classification at
R = 8; `recurrent_cosine` has its regression there. An R and setting costs 12 core-minutes in the MLP, and
about 90 in the RNN.
"""

from collections.abc import Mapping

from modtf.experiments.modarch.studies.factors_cosine import IN_MLP, Rates, named_cells, trials
from modtf.experiments.modarch.studies.recurrent_cosine import SEARCH
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

VARIANTS = ("gt_modular", "modular", "modular_op", "monolithic")
SEARCHES = {"mlp": IN_MLP, "rnn": SEARCH}
#: (family, R) -> setting -> variant -> the rate with the lowest validation loss
RATES: Mapping[tuple[str, int], Rates] = {
    ("mlp", 32): {
        "classification": {"gt_modular": 3e-3, "modular": 3e-3, "modular_op": 1e-2, "monolithic": 3e-3},
        "regression": {"gt_modular": 3e-2, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 3e-3},
    },
    ("mlp", 8): {
        "classification": {"gt_modular": 3e-3, "modular": 1e-2, "modular_op": 3e-3, "monolithic": 3e-3},
        "regression": {"gt_modular": 3e-2, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 1e-2},
    },
    ("mlp", 2): {
        "classification": {"gt_modular": 3e-3, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 1e-2},
        "regression": {"gt_modular": 3e-2, "modular": 1e-2, "modular_op": 1e-2, "monolithic": 1e-2},
    },
    ("rnn", 2): {
        "classification": {"gt_modular": 1.5e-3, "modular": 3e-3, "modular_op": 3e-3, "monolithic": 3e-3},
        "regression": {"gt_modular": 3e-3, "modular": 3e-3, "modular_op": 1.5e-3, "monolithic": 3e-3},
    },
    ("rnn", 8): {
        "classification": {"gt_modular": 3e-3, "modular": 3e-3, "modular_op": 3e-3, "monolithic": 3e-3},
    },
}


def variants() -> dict[str, Grid]:
    """Return the published variants by name."""
    return {name: grid(variant=name) for name in VARIANTS}


@register_study("first_cosine_tuning")
def tuning() -> list[Cell]:
    """Return every variant at every starting rate, on tasks that are not reported."""
    return [
        cell
        for (family, rules), rates in RATES.items()
        for *_, cell in trials(variants(), rates, rules, SEARCHES[family])
    ]


@register_study("first_cosine")
def cells() -> list[Cell]:
    """Return every variant at its rate, on the reported tasks."""
    return [
        cell
        for (family, rules), rates in RATES.items()
        for _, cell in named_cells(variants(), rates, rules, SEARCHES[family])
    ]
