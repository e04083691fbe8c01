"""The protocols that studies of the pages share, at constant rates and under a cosine schedule.

Width 32. At constant rates, steps and learning rates are the same for all variants of a task type. They were
chosen from measured step times before any run. This is not the published protocol, which has more steps at a
lower rate. The last and the best weights are evaluated on the published number of batches, the mlp with all
published sizes. In mha and rnn the activation matrix uses 10^6 tokens, `adaptation` 100 of 10^4.

Under a cosine schedule, the mlp takes 10,000 steps. Its learning rate falls to 0 from 1e-3, 3e-3 or 1e-2. If
the largest rate was best, the next one is tried too: 3e-2, then 1e-1. Each router takes the rate with the
lowest validation loss on tasks 5 to 7, which are not reported. The reported tasks are 10 to 14.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modtf.studies.grid import Grid, grid
from modtf.tasks.cell import Cell

SETTINGS = ["regression", "classification"]
TASKS = {"mlp": 10, "mha": 5, "rnn": 5}
STEPS = {"mlp": 25_000, "mha": 5_000, "rnn": 3_000}
LEARNING_RATE = {"mlp": 3e-4, "mha": 1e-3, "rnn": 1e-3}
SIZES = {"batches": 100, "tokens": 1_000_000, "draws": 100, "tokens_per_draw": 10_000}  # last evaluation
EXAMPLES = {"mlp": 1000, "mha": 256, "rnn": 256}  # per batch of the last evaluation
#: R, and the members: tasks that were not used for tuning
SHARED = grid(num_rules=8, members=tuple((task, 0) for task in range(10, 20)))

COSINE_STEPS = 10_000
COSINE_TASKS = tuple(range(10, 15))  # the reported tasks
#: fixed routing that every comparison contains: matrix, amount, whether one module is sampled
REFERENCES = {
    "perfect": ("spread", 0.0, False),
    "uniform": ("spread", 0.875, False),
    "sampled at random": ("spread", 0.875, True),
}
Rates = Mapping[str, Mapping[str, float]]  # setting -> router -> the rate with the lowest validation loss


def base(arch: str, **changes: Any) -> Grid:
    """Return the grid that all cells of a family share: width, steps, learning rate, sizes of evaluations.

    `changes` are fields of the protocol, such as `**{"training.steps": 100}`."""
    protocol: dict[str, Any] = {"training.steps": STEPS[arch], "training.schedule": None}
    protocol |= {"training.learning_rate": LEARNING_RATE[arch], "training.evaluations": 20}
    protocol |= {f"evaluation.{name}": size for name, size in SIZES.items()}
    protocol |= {f"evaluation.{name}": EXAMPLES[arch] for name in ("batch_size", "activation_batch_size")}
    return grid(arch=arch, width=32, preset="quick", **protocol | changes)


def recurrent() -> Grid:
    """Return the grid that the cells of the rnn share at a constant rate, in regression."""
    few = {"training.steps": 10_000, "training.learning_rate": 3e-3, "training.batch_size": 64}
    return SHARED * base("rnn", **few) * grid(setting="regression")


def clamped(matrix: str, amount: float, hard: bool) -> Grid:
    """Return a cell with fixed routing."""
    options = {"router.matrix": matrix, "router.amount": amount, "router.hard": hard}
    return grid(variant="clamped", **options)


def balanced(k: int, balance: str, **options: Any) -> Grid:
    """Return a cell of the router `balanced`, with further options."""
    return grid(variant="balanced", **{"router.k": k, "router.balance": balance}, **options)


def under_cosine(setting: str, learning_rate: float, arch: str = "mlp", **changes: Any) -> Grid:
    """Return the grid of cells whose learning rate falls from `learning_rate` to 0."""
    training = {"steps": COSINE_STEPS, "learning_rate": learning_rate, "schedule": "cosine"}
    protocol = {f"training.{name}": value for name, value in training.items()}
    return grid(setting=setting) * base(arch, **protocol | {"training.evaluations": 10} | changes)


@dataclass(frozen=True)
class Search:
    """How learning rates under a cosine schedule are found: cells, tasks and rates at the first step."""

    under_cosine: Callable[..., Grid]  # of a setting, a learning rate, and changes of the protocol
    starts: tuple[float, ...]
    farther: Mapping[float, float]  # best rate -> the rate that is tried because it was best
    tuned_on: tuple[int, ...]
    few: Mapping[str, int]  # sizes of the test after a trial, whose results nobody reads

    def trials(
        self, routers: Mapping[str, Grid], rates: Rates, num_rules: int = 8
    ) -> Iterator[tuple[str, str, float, Cell]]:
        """Yield setting, router, starting rate and cell of every trial of the search for `rates`."""
        for setting, chosen in rates.items():
            for name, best in chosen.items():
                for rate in self.starts + tuple(far for edge, far in self.farther.items() if best >= edge):
                    cells = self.under_cosine(setting, rate, **self.few)
                    yield setting, name, rate, _cell(self.tuned_on, num_rules, routers[name] * cells)

    def reported(
        self, routers: Mapping[str, Grid], rates: Rates, num_rules: int = 8
    ) -> Iterator[tuple[str, Cell]]:
        """Yield the router's name and its cell at the chosen rate, on the reported tasks."""
        for setting, chosen in rates.items():
            for name, rate in chosen.items():
                cells = self.under_cosine(setting, rate)
                yield name, _cell(COSINE_TASKS, num_rules, routers[name] * cells)


IN_MLP = Search(
    under_cosine,
    starts=(1e-3, 3e-3, 1e-2),
    farther={1e-2: 3e-2, 3e-2: 1e-1},
    tuned_on=(5, 6, 7),
    few={"evaluation.tokens": 10_000, "evaluation.draws": 2},
)


def _cell(tasks: Sequence[int], num_rules: int, point: Grid) -> Cell:
    [cell] = (grid(num_rules=num_rules, members=tuple((task, 0) for task in tasks)) * point).cells()
    return cell
