"""The searches for the routers of the study `factors`: 12 of them, about an hour at eight trials each.

    modtf tune --study=factors_tuning --oracle=bayesian --trials=8 --space learning_rate=1e-4:3e-3:log

mlp regression, R = M = 8, width 32, tasks 5 to 9 (`factors` has others), 10,000 steps a trial. All, two or
one of the modules process a token. Their load is left alone, or balanced by a penalty or a bias, whose
strength or rate is searched together with the learning rate. `expert_choice` is balanced by construction.
`clamped`, weighted and sampled, shows which rate suits a router that knows the rules.
"""

from modtf.experiments.modarch.studies.first import base
from modtf.experiments.modarch.studies.misrouting import dose
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

TUNED_ON = tuple(range(5, 10))  # tasks; `factors` has others
STEPS = 10_000  # of a trial
UNUSED = {"router.strength": 0.01, "router.rate": 0.001}  # fixed options are not searched


def without(tuned: str) -> dict[str, float]:
    """Return the options that a search over `tuned` fixes."""
    return {name: value for name, value in UNUSED.items() if name != f"router.{tuned}"}


def shared_by(k: int, balance: str) -> Grid:
    """Return a cell of `balanced`."""
    return grid(variant="balanced", **{"router.k": k, "router.balance": balance})


@register_study("factors_tuning")
def trials() -> list[Cell]:
    """Return the cells to tune, one search each: mlp regression on tasks of its own, fewer steps."""
    dense, sparse = {"none": UNUSED, "auxiliary": without("strength")}, {"bias": without("rate")}
    routers = [
        shared_by(k, balance) * grid(**fixed)
        for k in (8, 2, 1)
        for balance, fixed in (dense | (sparse if k < 8 else {})).items()
    ]
    routers += [grid(variant="expert_choice", **{"router.capacity": [1.0, 2.0]})]
    routers += [grid(variant="clamped") * dose("spread", 0.5, hard) for hard in (False, True)]
    shared = grid(num_rules=8, setting="regression", members=tuple((task, 0) for task in TUNED_ON))
    few = {"training.steps": STEPS, "evaluation.batches": 1, "evaluation.tokens": 10_000}
    few |= {"evaluation.draws": 2}
    return (shared * base("mlp", **few) * sum(routers, Grid([]))).cells()
