"""Studies of docs/study.md: the published variants at one width, at constant rates and under a cosine.

    modtf sweep --study=docs/studies/first.py:first --out=studies/first
    modtf report --results=studies/first --out=report --claims

`first` has 56 cells, seven core-hours: both settings, the four published variants, one seed a task. mlp: R =
2, 8, 32, ten tasks. mha (search v1) and rnn: R = 2, 8, five tasks. The protocol is that of protocols.py. The
published variants at R = 8 in regression are also cells of routers.py. With the same --out they are trained
once.

    modtf sweep --study=docs/studies/first.py:first_cosine_tuning --out=studies/first_cosine_tuning
    modtf sweep --study=docs/studies/first.py:first_cosine --out=studies/first_cosine

`first_cosine` has 36 cells of the mlp and the rnn, 127 to tune: 10,000 steps, tasks 10 to 14. Protocol and
search for learning rates are those of protocols.py in the mlp, and of recurrent.py in the rnn. All variants
of a family have the same budget. Both settings have R = 2, 8 and 32 in the mlp and R = 2 in the rnn, which
also has classification at R = 8; `recurrent_cosine` has its regression there. An R and setting costs 12
core-minutes in the mlp, and about 90 in the rnn.
"""

from collections.abc import Mapping

from protocols import IN_MLP, SETTINGS, TASKS, Rates, base
from recurrent import IN_RNN

from modtf.studies.grid import Grid, grid
from modtf.tasks.cell import Cell

RULES = {"mlp": (2, 8, 32), "mha": (2, 8), "rnn": (2, 8)}
VARIANTS = ("gt_modular", "modular", "modular_op", "monolithic")
SEARCHES = {"mlp": IN_MLP, "rnn": IN_RNN}
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


def first() -> list[Cell]:
    """Return every family x setting x published variant."""
    points = [
        grid(num_rules=list(rules), tasks=TASKS[arch], seeds=1)
        * base(arch)
        * grid(setting=SETTINGS)
        * grid(variant=["monolithic", "modular", "modular_op", "gt_modular"])
        for arch, rules in RULES.items()
    ]
    return sum(points, Grid([])).cells()


def first_cosine_tuning() -> list[Cell]:
    """Return every variant at every starting rate, on tasks that are not reported."""
    return [
        cell
        for (family, rules), rates in RATES.items()
        for *_, cell in SEARCHES[family].trials(variants(), rates, rules)
    ]


def first_cosine() -> list[Cell]:
    """Return every variant at its rate, on the reported tasks."""
    return [
        cell
        for (family, rules), rates in RATES.items()
        for _, cell in SEARCHES[family].reported(variants(), rates, rules)
    ]
