"""Studies of docs/misrouting.md: modules trained under fixed routing, at constant rates and under a cosine.

    modtf sweep --study=docs/studies/misrouting.py:misrouting --out=studies/misrouting
    modtf report --results=studies/misrouting --out=report

`misrouting` has 48 cells, about six core-hours: R = 8 rules and modules, the mlp, both settings, tasks 10 to
19 (nothing was tuned on them), one seed, at constant rates. It has eleven matrices of `clamped`, each
weighted and sampled; two of them are the same either way. The matrices that claims need come first: perfect,
useless, equal alignment.

    modtf sweep --study=docs/studies/misrouting.py:misrouting_cosine_tuning \\
        --out=studies/misrouting_cosine_tuning
    modtf sweep --study=docs/studies/misrouting.py:misrouting_cosine --out=studies/misrouting_cosine

`misrouting_cosine` has 40 cells of the mlp, 137 to tune, under the cosine schedule of protocols.py. Perfect,
uniform and random routing are cells of `factors_cosine` too.
"""

import factors
from protocols import IN_MLP, REFERENCES, SETTINGS, SHARED, Rates, base, clamped, recurrent

from modtf.studies.grid import Grid, grid
from modtf.tasks.cell import Cell

#: (matrix, amount): whether sampling from the matrix differs from weighting by it
MATRICES = {
    ("spread", 0.0): False, ("spread", 0.875): True, ("spread", 0.5): True, ("block", 2): True,
    ("collapsed", 2): False, ("spread", 0.75): True, ("block", 4): True, ("collapsed", 4): True,
    ("collapsed", 8): True, ("spread", 0.25): True, ("spread", 0.1): True,
}  # fmt: skip
#: (matrix, amount, whether it is sampled)
EVERY = [(*which, hard) for which, differs in MATRICES.items() for hard in (False, True)[: 1 + differs]]
#: the same for the rnn, in regression. In a pilot run of tasks 5 and 6 (20 matrices, 4,000 steps) sampled
#: `spread` was near the useless matrix from 0.25 on, and `collapsed` was near its block
IN_RNN = (
    ("spread", 0.0, False), ("spread", 0.875, False), ("spread", 0.5, False), ("block", 2, False),
    ("spread", 0.1, True), ("block", 2, True), ("collapsed", 2, False), ("spread", 0.5, True),
)  # fmt: skip
#: every fixed routing under a cosine schedule, by its name
ROUTINGS: dict[str, tuple[str, float, bool]] = REFERENCES | {
    f"{matrix} {amount:g}, {'sampled' if hard else 'weighted'}": (matrix, amount, hard)
    for matrix, amount, hard in EVERY
    if (matrix, amount, hard) not in REFERENCES.values()
}
#: setting -> fixed routing -> the rate with the lowest validation loss; factors.py has those of `REFERENCES`
RATES: Rates = {
    "classification": {
        "spread 0.1, weighted": 3e-3, "spread 0.1, sampled": 3e-3,
        "spread 0.25, weighted": 3e-3, "spread 0.25, sampled": 3e-3,
        "spread 0.5, weighted": 1e-2, "spread 0.5, sampled": 3e-3,
        "spread 0.75, weighted": 1e-2, "spread 0.75, sampled": 1e-2,
        "block 2, weighted": 1e-2, "block 2, sampled": 1e-2,
        "block 4, weighted": 1e-2, "block 4, sampled": 1e-2,
        "collapsed 2, weighted": 1e-2,
        "collapsed 4, weighted": 1e-2, "collapsed 4, sampled": 1e-2,
        "collapsed 8, weighted": 1e-2, "collapsed 8, sampled": 1e-2,
    },
    "regression": {
        "spread 0.1, weighted": 1e-2, "spread 0.1, sampled": 1e-2,
        "spread 0.25, weighted": 1e-2, "spread 0.25, sampled": 1e-2,
        "spread 0.5, weighted": 1e-2, "spread 0.5, sampled": 1e-2,
        "spread 0.75, weighted": 3e-2, "spread 0.75, sampled": 1e-2,
        "block 2, weighted": 3e-2, "block 2, sampled": 3e-2,
        "block 4, weighted": 3e-2, "block 4, sampled": 1e-2,
        "collapsed 2, weighted": 3e-2,
        "collapsed 4, weighted": 1e-2, "collapsed 4, sampled": 1e-2,
        "collapsed 8, weighted": 3e-2, "collapsed 8, sampled": 1e-2,
    },
}  # fmt: skip


def routings() -> dict[str, Grid]:
    """Return every fixed routing by its name."""
    return {name: clamped(*which) for name, which in ROUTINGS.items()}


def all_rates() -> Rates:
    """Return the chosen rates, with those of factors.py for perfect, uniform and random routing."""
    return {
        setting: {name: factors.RATES[setting][name] for name in REFERENCES} | dict(chosen)
        for setting, chosen in RATES.items()
    }


def misrouting() -> list[Cell]:
    """Return every matrix, weighted and sampled, in both settings of the mlp; some in the rnn."""
    every, some = (sum((clamped(*which) for which in these), Grid([])) for these in (EVERY, IN_RNN))
    return (SHARED * base("mlp") * every * grid(setting=SETTINGS) + recurrent() * some).cells()


def misrouting_cosine_tuning() -> list[Cell]:
    """Return every fixed routing at every starting rate, on tasks that are not reported."""
    return [cell for *_, cell in IN_MLP.trials(routings(), RATES)]


def misrouting_cosine() -> list[Cell]:
    """Return every fixed routing at its rate, on the reported tasks."""
    return [cell for _, cell in IN_MLP.reported(routings(), all_rates())]
