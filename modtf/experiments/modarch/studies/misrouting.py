"""What misrouting costs: modules trained under given routings, 40 cells, about ten core-hours.

    python launch/sweep.py --study=misrouting --out=studies/misrouting
    python launch/report.py --results=studies/misrouting --out=report

R = 8 rules and modules, width 32, the mlp, both settings, tasks 10 to 19, which nothing was tuned on, one
seed; all else as in the study `first`. Eleven matrices of `clamped`, each soft and hard; two of them are the
same either way. The doses that claims rest on come first: perfect, useless, and those of equal alignment.
"""

from modtf.cell import Cell
from modtf.experiments.modarch.studies.first import base
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study

TASKS = tuple(range(10, 20))
#: (matrix, amount): whether what is drawn from it differs from its rows
DOSES = {
    ("spread", 0.0): False,
    ("spread", 0.875): True,
    ("spread", 0.5): True,
    ("block", 2): True,
    ("collapsed", 2): False,
    ("spread", 0.75): True,
    ("block", 4): True,
    ("collapsed", 4): True,
    ("collapsed", 8): True,
    ("spread", 0.25): True,
    ("spread", 0.1): True,
}


def dose(matrix: str, amount: float, hard: bool) -> Grid:
    """A cell of `clamped`."""
    return grid(**{"router.matrix": matrix, "router.amount": amount, "router.hard": hard})


@register_study("misrouting")
def cells() -> list[Cell]:
    """Every matrix, soft and hard, in both settings."""
    doses = [dose(*which, hard) for which, drawn in DOSES.items() for hard in (False, True)[: 1 + drawn]]
    members = grid(num_rules=8, variant="clamped", members=tuple((task, 0) for task in TASKS))
    settings = grid(setting=["regression", "classification"])
    return (members * base("mlp") * sum(doses, Grid([])) * settings).cells()
