"""The study `factors` under a cosine schedule, in part: 26 cells of five models, 96 to tune them.

    modtf sweep --study=factors_cosine_tuning --out=studies/factors_cosine_tuning
    modtf sweep --study=factors_cosine --out=studies/factors_cosine

The MLP in both settings, R = M = 8, width 32, 10,000 steps. The learning rate falls to 0 as a cosine, from
1e-3, 3e-3 or 1e-2. If the largest rate was best, the next one is tried too: 3e-2, then 1e-1. Each router
takes the rate with the lowest validation loss on tasks 5 to 7, which are not reported. The reported tasks
are 10 to 14. Strengths and rates of the balances are those of `factors`, found by a search at a constant
rate in regression.

At a constant rate, a ranking of routers is mostly a ranking of rates. Steps of a constant size leave an error
of their own, and a router tuned to smaller steps has less of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modtf.experiments.modarch.studies.factors import CAPACITIES, TUNED
from modtf.experiments.modarch.studies.factors_tuning import shared_by
from modtf.experiments.modarch.studies.first import base
from modtf.experiments.modarch.studies.misrouting import dose
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

STEPS = 10_000
TASKS = tuple(range(10, 15))  # the reported tasks
GIVEN = {
    "perfect": ("spread", 0.0, False),
    "uniform": ("spread", 0.875, False),
    "sampled at random": ("spread", 0.875, True),
}
CHOICES = {8: "dense", 2: "top-2", 1: "top-1"}
BALANCES = {"none": "", "auxiliary": ", penalty", "bias": ", bias"}
Rates = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Search:
    """How learning rates under a cosine schedule are found: cells, tasks and rates at the first step."""

    under_cosine: Callable[..., Grid]  # of a setting, a learning rate, and changes of the protocol
    starts: tuple[float, ...]
    farther: Mapping[float, float]  # best rate -> the rate that is tried because it was best
    tuned_on: tuple[int, ...]
    few: Mapping[str, int]  # sizes of the test after a trial, whose results nobody reads


#: setting -> router -> the rate with the lowest validation loss
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


def routers() -> dict[str, Grid]:
    """Return perfect, uniform and random routing, then every learned router of `factors`, by its name."""
    axes = {name: grid(variant="clamped") * dose(*which) for name, which in GIVEN.items()}
    for (k, balance), (_, options) in TUNED.items():
        axes[CHOICES[k] + BALANCES[balance]] = shared_by(k, balance) * grid(**options)
    for capacity in CAPACITIES:
        axes[f"expert choice {capacity:g}"] = grid(variant="expert_choice", **{"router.capacity": capacity})
    return axes


def under_cosine(setting: str, learning_rate: float, arch: str = "mlp", **changes: Any) -> Grid:
    """Return the grid of cells whose learning rate falls from `learning_rate` to 0."""
    training = {"steps": STEPS, "learning_rate": learning_rate, "schedule": "cosine", "evaluations": 10}
    protocol = {f"training.{name}": value for name, value in training.items()}
    return grid(setting=setting) * base(arch, **protocol | changes)


IN_MLP = Search(
    under_cosine,
    starts=(1e-3, 3e-3, 1e-2),
    farther={1e-2: 3e-2, 3e-2: 1e-1},
    tuned_on=(5, 6, 7),
    few={"evaluation.tokens": 10_000, "evaluation.draws": 2},
)


@register_study("factors_cosine_tuning")
def tuning() -> list[Cell]:
    """Return every router at every starting rate, on tasks that are not reported."""
    return [cell for *_, cell in trials(routers(), RATES)]


@register_study("factors_cosine")
def cells() -> list[Cell]:
    """Return every router at its rate, on five tasks of `factors`."""
    return [cell for _, cell in named_cells(routers(), RATES)]


def trials(
    routers: Mapping[str, Grid], rates: Rates, num_rules: int = 8, search: Search = IN_MLP
) -> Iterator[tuple[str, str, float, Cell]]:
    """Yield setting, router, starting rate and cell of every trial of the search for `rates`."""
    shared = _on(search.tuned_on, num_rules)
    for setting, chosen in rates.items():
        for name, best in chosen.items():
            for rate in search.starts + tuple(far for edge, far in search.farther.items() if best >= edge):
                [cell] = (shared * routers[name] * search.under_cosine(setting, rate, **search.few)).cells()
                yield setting, name, rate, cell


def named_cells(
    routers: Mapping[str, Grid], rates: Rates, num_rules: int = 8, search: Search = IN_MLP
) -> Iterator[tuple[str, Cell]]:
    """Yield the router's name and its cell at the chosen rate, on the reported tasks."""
    for setting, chosen in rates.items():
        for name, rate in chosen.items():
            [cell] = (_on(TASKS, num_rules) * routers[name] * search.under_cosine(setting, rate)).cells()
            yield name, cell


def _on(tasks: Sequence[int], num_rules: int) -> Grid:
    return grid(num_rules=num_rules, members=tuple((task, 0) for task in tasks))
