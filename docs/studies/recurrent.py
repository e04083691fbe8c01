"""Studies of the rnn in docs/routers_results.md and docs/misrouting.md under a cosine: 15 cells, 46 to tune.

    modtf sweep --study=docs/studies/recurrent.py:recurrent_cosine_tuning \\
        --out=studies/recurrent_cosine_tuning
    modtf sweep --study=docs/studies/recurrent.py:recurrent_cosine --out=studies/recurrent_cosine

Regression, R = M = 8, width 32, tasks 10 to 14; 10,000 steps with batches of 64, as the rnn of misrouting.py.
The learning rate falls to 0 as a cosine, from 1.5e-3, 3e-3 or 6e-3; if 6e-3 was best, 1.2e-2 is tried too.
Each row takes the rate with the lowest validation loss on tasks 5 and 6. Strengths and rates of the balances
are those of `factors`.
"""

import factors
import misrouting
from protocols import Rates, Search, under_cosine

from modtf.studies.grid import Grid, grid
from modtf.tasks.cell import Cell

#: of the last evaluation, as in the scorecard
SIZES = {
    "batches": 20,
    "tokens": 51_200,
    "draws": 20,
    "tokens_per_draw": 2_560,
    "conditions": ("len30_scale2",),
}
LEARNED = ("dense", "top-1", "top-1, bias", "top-1, penalty", "top-1, penalty of each sequence")
VARIANTS = ("modular_op", "monolithic")  # `modular` has the dense router, `gt_modular` is perfect routing
#: setting -> row -> the rate with the lowest validation loss
RATES: Rates = {
    "regression": {
        "perfect": 3e-3, "uniform": 6e-3, "spread 0.1, sampled": 3e-3, "spread 0.5, weighted": 3e-3,
        "spread 0.5, sampled": 3e-3, "block 2, weighted": 3e-3, "block 2, sampled": 3e-3,
        "collapsed 2, weighted": 3e-3, "dense": 3e-3, "top-1": 3e-3, "top-1, bias": 3e-3,
        "top-1, penalty": 3e-3, "top-1, penalty of each sequence": 3e-3, "modular_op": 3e-3,
        "monolithic": 3e-3,
    },
}  # fmt: skip


def rows() -> dict[str, Grid]:
    """Return fixed routings, learned routers and variants by name."""
    routers = (factors.learned_in_rnn(*which) for which in factors.IN_RNN)
    named = misrouting.routings() | dict(zip(LEARNED, routers, strict=True))
    return named | {name: grid(variant=name) for name in VARIANTS}


def rnn_under_cosine(setting: str, learning_rate: float, **changes: int) -> Grid:
    """Return the grid of rnn cells whose learning rate falls from `learning_rate` to 0."""
    sizes = {f"evaluation.{name}": size for name, size in SIZES.items()}
    return under_cosine(setting, learning_rate, "rnn", **{"training.batch_size": 64} | sizes | changes)


IN_RNN = Search(
    rnn_under_cosine,
    starts=(1.5e-3, 3e-3, 6e-3),
    farther={6e-3: 1.2e-2},
    tuned_on=(5, 6),
    few={
        "evaluation.batches": 1,
        "evaluation.tokens": 2_560,
        "evaluation.draws": 2,
        "training.evaluations": 1,
        "training.tail": 1,
    },
)


def recurrent_cosine_tuning() -> list[Cell]:
    """Return every row at every starting rate, on tasks that are not reported."""
    return [cell for *_, cell in IN_RNN.trials(rows(), RATES)]


def recurrent_cosine() -> list[Cell]:
    """Return every row at its rate, on the reported tasks."""
    return [cell for _, cell in IN_RNN.reported(rows(), RATES)]
