"""Routers that differ in one thing at a time, 31 cells; 50 paired runs; 8 with a warm start.

    modtf sweep --study=factors --out=studies/factors
    modtf sweep --study=factors_twins --out=studies/factors  # afterwards: it reads the matrices of `factors`
    modtf sweep --study=factors_started --out=studies/factors

All, two or one of the modules process a token. Their load is left alone, or balanced by a penalty, by a bias
or by construction. Tasks, steps and task types are those of the study `misrouting`. Learning rates, strengths
and rates were found by `factors_tuning` in mlp regression. Perfect and uninformative routing run alongside.

The rnn has five routers at the protocol of `misrouting`, with the strengths and rates of the mlp: all
modules, and top-1, left alone or balanced over the batch, over every sequence, or by a bias.

A paired run is `clamped` to the final routing matrix of a router on the same task and seed, weighted or
sampled, in the mlp at the tuned learning rate of `clamped`. Its cost relative to perfect routing is the price
of the matrix. The difference between router and paired run is everything else: information in p about a token
beyond its rule, changes of p during training, and the learning rate.
"""

from modtf.experiments.modarch.studies.factors_tuning import shared_by
from modtf.experiments.modarch.studies.first import SETTINGS, base
from modtf.experiments.modarch.studies.misrouting import SHARED, dose, recurrent
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

STARTED = ((8, "none"), (2, "none"), (1, "none"), (1, "auxiliary"))
FOLDER = "studies/factors"  # of the cells with paired runs, relative to the working directory
STRENGTH, SPEED = "router.strength", "router.rate"
#: (k, balance): the learning rate, and the options found with it
TUNED: dict[tuple[int, str], tuple[float, dict[str, float]]] = {
    (8, "none"): (1e-4, {}),
    (8, "auxiliary"): (1.7e-4, {STRENGTH: 0.0066}),
    (2, "none"): (2.5e-4, {}),
    (2, "auxiliary"): (5.2e-4, {STRENGTH: 0.084}),
    (2, "bias"): (3.3e-4, {SPEED: 0.0018}),
    (1, "none"): (4.8e-4, {}),
    (1, "auxiliary"): (8.3e-4, {STRENGTH: 0.013}),
    (1, "bias"): (3.3e-4, {SPEED: 0.0018}),
}
CAPACITIES = {1.0: 3e-4, 2.0: 3e-4}  # capacity of `expert_choice` -> learning rate
CLAMPED = {False: 1.1e-4, True: 2.4e-4}  # weighted, sampled -> learning rate
#: (k, balance, scope of the penalty)
IN_RNN = (
    (8, "none", None),
    (1, "none", None),
    (1, "bias", None),
    (1, "auxiliary", "batch"),
    (1, "auxiliary", "sequence"),
)


def of_mlp(setting: str, learning_rate: float) -> Grid:
    """Return the grid that the cells of the mlp share."""
    return grid(setting=setting) * SHARED * base("mlp", **{"training.learning_rate": learning_rate})


def learned(setting: str) -> list[Cell]:
    """Return the routers of the mlp."""
    points = [
        of_mlp(setting, rate) * shared_by(*which) * grid(**options)
        for which, (rate, options) in TUNED.items()
    ]
    points += [
        of_mlp(setting, rate) * grid(variant="expert_choice", **{"router.capacity": capacity})
        for capacity, rate in CAPACITIES.items()
    ]
    return sum(points, Grid([])).cells()


def given(setting: str) -> list[Cell]:
    """Return perfect and uninformative routing of the mlp."""
    doses = [("spread", 0.0, False), ("spread", 0.875, False), ("spread", 0.875, True)]
    points = [of_mlp(setting, CLAMPED[which[2]]) * grid(variant="clamped") * dose(*which) for which in doses]
    return sum(points, Grid([])).cells()


def learned_in_rnn(k: int, balance: str, scope: str | None) -> Grid:
    """Return a router of the rnn, with the strengths and rates of the mlp."""
    scoped = {"router.scope": scope} if scope else {}
    return shared_by(k, balance) * grid(**TUNED[k, balance][1], **scoped)


def in_rnn() -> list[Cell]:
    """Return the routers of the rnn."""
    return (recurrent() * sum((learned_in_rnn(*which) for which in IN_RNN), Grid([]))).cells()


@register_study("factors")
def cells() -> list[Cell]:
    """Return the cells of fixed and learned routing in the mlp, and of routers in the rnn."""
    return [cell for setting in SETTINGS for cell in (*given(setting), *learned(setting))] + in_rnn()


@register_study("factors_twins")
def twins() -> list[Cell]:
    """Return the paired runs of the learned routers."""
    of = {
        hard: [(of_mlp(s, rate), c) for s in SETTINGS for c in learned(s)] for hard, rate in CLAMPED.items()
    }
    points = [
        shared * grid(variant="clamped", **{"router.of": f"{FOLDER}/{cell.folder}", "router.hard": hard})
        for hard, learners in of.items()
        for shared, cell in [*learners, *((recurrent(), cell) for cell in in_rnn())]
    ]
    return sum(points, Grid([])).cells()


@register_study("factors_started")
def started() -> list[Cell]:
    """Return some routers with a warm start from the oracle's or from random routing; mlp regression."""
    starts = grid(**{"trainer.start": ["oracle", "random"]})
    points = [
        of_mlp("regression", TUNED[which][0]) * shared_by(*which) * grid(**TUNED[which][1]) * starts
        for which in STARTED
    ]
    return sum(points, Grid([])).cells()
