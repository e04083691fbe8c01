"""Does the better specialised of several seeds perform better? 4 cells, 175 models, about 1.3 core-hours.

    modtf sweep --study=docs/studies/seeds.py --out=studies/seeds
    modtf report --results=studies/seeds --archive=docs/study/seeds.zip
    python docs/scripts/draw_seeds.py

Variants differ in more than specialisation. Here everything is equal but the seed: initial weights and the
examples of training. Regression, R = 8, width 32, a learning rate that falls to 0 as a cosine. Five seeds of
each router on each task. mlp: `modular`, and two or one of eight modules (`balanced` without a balance), on
tasks 10 to 19. rnn: `modular`, on tasks 20 to 24. Rates are those that `factors_cosine` and `open_questions`
chose on other tasks.

The script `draw_seeds.py` has the question, which was fixed before the models were trained.
"""

from collections.abc import Iterable
from typing import Any

import open_questions
from factors import CHOICES, RATES
from protocols import balanced, under_cosine

from modtf.studies.grid import grid
from modtf.tasks.cell import Cell

SEEDS = range(5)
#: losses and matrices must tell seeds apart
SIZES: dict[str, Any] = {"evaluation.batches": 100, "evaluation.tokens": 100_000, "evaluation.draws": 20}
#: router of the mlp -> its cells, and its rate
ROUTERS = {"modular": (grid(variant="modular"), open_questions.RATES["mlp"]["modular"])} | {
    CHOICES[k]: (balanced(k, "none"), RATES["regression"][CHOICES[k]]) for k in (2, 1)
}


def members(tasks: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return every seed of every task."""
    return tuple((task, seed) for task in tasks for seed in SEEDS)


def cells() -> list[Cell]:
    """Return every router with all its tasks and seeds."""
    tasks = grid(num_rules=8, members=members(range(10, 20)))
    mlp = [tasks * router * under_cosine("regression", rate, **SIZES) for router, rate in ROUTERS.values()]
    shared = {"members": members(range(20, 25)), **SIZES}
    rate = open_questions.RATES["rnn"]["modular"]
    rnn = open_questions.trained("rnn", rate, (), **shared) * grid(variant="modular")
    return sum(mlp, rnn).cells()
