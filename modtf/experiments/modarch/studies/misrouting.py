"""The price of misrouting: modules trained under fixed routing, 48 cells, about six core-hours.

    python launch/sweep.py --study=misrouting --out=studies/misrouting
    python launch/report.py --results=studies/misrouting --out=report

R = 8 rules and modules, width 32, the mlp, both settings, tasks 10 to 19 (nothing was tuned on them), one
seed; the rest as in the study `first`. It has eleven matrices of `clamped`, each weighted and sampled; two of
them are the same either way. The matrices that claims need come first: perfect, useless, equal alignment.
"""

from modtf.experiments.modarch.studies.first import SETTINGS, base
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

#: R, and the members: tasks that were not used for tuning
SHARED = grid(num_rules=8, members=tuple((task, 0) for task in range(10, 20)))
#: (matrix, amount): whether sampling from the matrix differs from weighting by it
DOSES = {
    ("spread", 0.0): False, ("spread", 0.875): True, ("spread", 0.5): True, ("block", 2): True,
    ("collapsed", 2): False, ("spread", 0.75): True, ("block", 4): True, ("collapsed", 4): True,
    ("collapsed", 8): True, ("spread", 0.25): True, ("spread", 0.1): True,
}  # fmt: skip


#: (matrix, amount, hard) for the rnn, in regression. In a pilot run of tasks 5 and 6 (20 matrices, 4,000
#: steps) sampled `spread` was near the useless matrix from 0.25 on, and `collapsed` was near its block
IN_RNN = (
    ("spread", 0.0, False), ("spread", 0.875, False), ("spread", 0.5, False), ("block", 2, False),
    ("spread", 0.1, True), ("block", 2, True), ("collapsed", 2, False), ("spread", 0.5, True),
)  # fmt: skip


def dose(matrix: str, amount: float, hard: bool) -> Grid:
    """Return a cell of `clamped`."""
    return grid(**{"router.matrix": matrix, "router.amount": amount, "router.hard": hard})


def recurrent() -> Grid:
    """Return the grid that the cells of the rnn share."""
    few = {"training.steps": 10_000, "training.learning_rate": 3e-3, "training.batch_size": 64}
    return SHARED * base("rnn", **few) * grid(setting="regression")


@register_study("misrouting")
def cells() -> list[Cell]:
    """Return every matrix, weighted and sampled, in both settings of the mlp; some in the rnn."""
    doses = [dose(*which, hard) for which, drawn in DOSES.items() for hard in (False, True)[: 1 + drawn]]
    settings = grid(setting=SETTINGS)
    mlp = SHARED * base("mlp") * grid(variant="clamped") * sum(doses, Grid([])) * settings
    rnn = recurrent() * grid(variant="clamped") * sum((dose(*which) for which in IN_RNN), Grid([]))
    return (mlp + rnn).cells()
