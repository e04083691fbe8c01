"""Studies of docs/routers_results.md: routers that differ in one thing at a time.

All, two or one of the modules process a token. Their load is left alone, or balanced by a penalty, by a bias
or by construction. R = M = 8, width 32; protocols.py has the protocols.

    modtf tune --study=docs/studies/factors.py:factors_tuning --oracle=bayesian --trials=8 \\
        --space learning_rate=1e-4:3e-3:log

`factors_tuning` has the 12 cells to tune, about an hour: mlp regression, tasks 5 to 9 (`factors` has others),
10,000 steps a trial. The strength or rate of a balance is searched together with the learning rate.
`expert_choice` is balanced by construction. `clamped`, weighted and sampled, shows which rate suits a router
that knows the rules.

    modtf sweep --study=docs/studies/factors.py:factors --out=studies/factors
    modtf sweep --study=docs/studies/factors.py:factors_twins --out=studies/factors
    modtf sweep --study=docs/studies/factors.py:factors_started --out=studies/factors

`factors` has 31 cells at the constant rates that were found. Tasks, steps and task types are those of
misrouting.py. Perfect and uninformative routing run alongside. The rnn has five routers, with the strengths
and rates of the mlp: all modules, and top-1, left alone or balanced over the batch, over every sequence, or
by a bias.

`factors_twins` has 50 paired runs, which read the matrices of `factors`. A paired run is `clamped` to the
final routing matrix of a router on the same task and seed, weighted or sampled, in the mlp at the tuned
learning rate of `clamped`. Its cost relative to perfect routing is the price of the matrix. The difference
between router and paired run is everything else: information in p about a token beyond its rule, changes of p
during training, and the learning rate. `factors_started` has 8 cells with a warm start.

    modtf sweep --study=docs/studies/factors.py:factors_cosine_tuning --out=studies/factors_cosine_tuning
    modtf sweep --study=docs/studies/factors.py:factors_cosine --out=studies/factors_cosine

`factors_cosine` has 26 cells of the mlp in both settings under a cosine schedule, 96 to tune. Strengths and
rates of the balances are those of `factors`. At a constant rate, a ranking of routers is mostly a ranking of
rates. Steps of a constant size leave an error of their own, and a router tuned to smaller steps has less.
"""

from typing import Any

from protocols import IN_MLP, REFERENCES, SETTINGS, SHARED, Rates, balanced, base, clamped, recurrent

from modtf.studies.grid import Grid, grid
from modtf.tasks.cell import Cell

TUNED_ON = tuple(range(5, 10))  # tasks; `factors` has others
TRIAL_STEPS = 10_000
UNUSED = {"router.strength": 0.01, "router.rate": 0.001}  # fixed options are not searched
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
STARTED = ((8, "none"), (2, "none"), (1, "none"), (1, "auxiliary"))
#: (k, balance, scope of the penalty)
IN_RNN = (
    (8, "none", None),
    (1, "none", None),
    (1, "bias", None),
    (1, "auxiliary", "batch"),
    (1, "auxiliary", "sequence"),
)
CHOICES = {8: "dense", 2: "top-2", 1: "top-1"}
BALANCES = {"none": "", "auxiliary": ", penalty", "bias": ", bias"}
#: setting -> router -> the rate with the lowest validation loss under a cosine schedule
RATES: Rates = {
    "classification": {
        "perfect": 3e-3, "uniform": 1e-2, "sampled at random": 3e-3, "dense": 1e-2, "dense, penalty": 1e-2,
        "top-2": 1e-2, "top-2, penalty": 3e-3, "top-2, bias": 3e-3, "top-1": 1e-2, "top-1, penalty": 3e-3,
        "top-1, bias": 3e-3, "expert choice 1": 3e-3, "expert choice 2": 3e-3,
    },
    "regression": {
        "perfect": 3e-2, "uniform": 3e-2, "sampled at random": 1e-2, "dense": 1e-2, "dense, penalty": 1e-2,
        "top-2": 1e-2, "top-2, penalty": 1e-2, "top-2, bias": 1e-2, "top-1": 1e-2, "top-1, penalty": 1e-3,
        "top-1, bias": 3e-3, "expert choice 1": 1e-2, "expert choice 2": 1e-2,
    },
}  # fmt: skip


def mlp_at(setting: str, learning_rate: float) -> Grid:
    """Return the grid that the cells of the mlp share at a constant rate."""
    return grid(setting=setting) * SHARED * base("mlp", **{"training.learning_rate": learning_rate})


def tuned(k: int, balance: str, **options: Any) -> Grid:
    """Return a router with the strength or rate that was found."""
    return balanced(k, balance, **TUNED[k, balance][1], **options)


def choice(capacity: float) -> Grid:
    """Return a router whose modules choose tokens."""
    return grid(variant="expert_choice", **{"router.capacity": capacity})


def learned(setting: str) -> list[Cell]:
    """Return the routers of the mlp."""
    points = [mlp_at(setting, rate) * tuned(*which) for which, (rate, _) in TUNED.items()]
    points += [mlp_at(setting, rate) * choice(capacity) for capacity, rate in CAPACITIES.items()]
    return sum(points, Grid([])).cells()


def fixed(setting: str) -> list[Cell]:
    """Return perfect and uninformative routing of the mlp."""
    points = [mlp_at(setting, CLAMPED[which[2]]) * clamped(*which) for which in REFERENCES.values()]
    return sum(points, Grid([])).cells()


def learned_in_rnn(k: int, balance: str, scope: str | None) -> Grid:
    """Return a router of the rnn, with the strengths and rates of the mlp."""
    return tuned(k, balance, **({"router.scope": scope} if scope else {}))


def in_rnn() -> list[Cell]:
    """Return the routers of the rnn."""
    return (recurrent() * sum((learned_in_rnn(*which) for which in IN_RNN), Grid([]))).cells()


def routers() -> dict[str, Grid]:
    """Return perfect, uniform and random routing, then every learned router, by its name."""
    named = {name: clamped(*which) for name, which in REFERENCES.items()}
    named |= {CHOICES[k] + BALANCES[balance]: tuned(k, balance) for k, balance in TUNED}
    return named | {f"expert choice {capacity:g}": choice(capacity) for capacity in CAPACITIES}


def factors_tuning() -> list[Cell]:
    """Return the cells to tune, one search each: mlp regression on tasks of its own, fewer steps."""
    searched = {"none": None, "auxiliary": STRENGTH, "bias": SPEED}
    points = [
        balanced(k, balance, **{name: value for name, value in UNUSED.items() if name != searched[balance]})
        for k in (8, 2, 1)
        for balance in searched
        if (k, balance) in TUNED
    ]
    points += [choice(capacity) for capacity in CAPACITIES]
    points += [clamped("spread", 0.5, hard) for hard in (False, True)]
    shared = grid(num_rules=8, setting="regression", members=tuple((task, 0) for task in TUNED_ON))
    few = {"training.steps": TRIAL_STEPS, "evaluation.batches": 1, "evaluation.tokens": 10_000}
    return (shared * base("mlp", **few, **{"evaluation.draws": 2}) * sum(points, Grid([]))).cells()


def factors() -> list[Cell]:
    """Return the cells of fixed and learned routing in the mlp, and of routers in the rnn."""
    return [cell for setting in SETTINGS for cell in (*fixed(setting), *learned(setting))] + in_rnn()


def factors_twins() -> list[Cell]:
    """Return the paired runs of the learned routers."""
    points = [
        shared * grid(variant="clamped", **{"router.of": f"{FOLDER}/{cell.folder}", "router.hard": hard})
        for hard, rate in CLAMPED.items()
        for shared, cells in [*((mlp_at(s, rate), learned(s)) for s in SETTINGS), (recurrent(), in_rnn())]
        for cell in cells
    ]
    return sum(points, Grid([])).cells()


def factors_started() -> list[Cell]:
    """Return some routers with a warm start from the oracle's or from random routing; mlp regression."""
    starts = grid(**{"trainer.start": ["oracle", "random"]})
    points = [mlp_at("regression", TUNED[which][0]) * tuned(*which) * starts for which in STARTED]
    return sum(points, Grid([])).cells()


def factors_cosine_tuning() -> list[Cell]:
    """Return every router at every starting rate, on tasks that are not reported."""
    return [cell for *_, cell in IN_MLP.trials(routers(), RATES)]


def factors_cosine() -> list[Cell]:
    """Return every router at its rate, on five tasks of `factors`."""
    return [cell for _, cell in IN_MLP.reported(routers(), RATES)]
