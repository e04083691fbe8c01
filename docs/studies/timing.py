"""When must routing be right? Fixed routing that is wrong in a first or a last part of training.

    modtf sweep --study=docs/studies/timing.py:search --out=studies/timing_search
    modtf sweep --study=docs/studies/timing.py --out=studies/timing
    python docs/scripts/data.py draw_timing

The MLP in both settings, R = M = 8, width 32, 10,000 steps, a learning rate that falls to 0 as a cosine.
`docs/studies/timing_registered.md` holds the design, which was committed before any training. An arm is wrong
in the first or the last part of training: tokens go to a module that is sampled from `spread` .1 or .875. The
other steps have perfect routing. A share counts steps, or, in the control, the integrated learning rate.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import modtf
from modtf.studies.grid import Grid, grid

STEPS = 10_000
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # of steps, between never and always
CONTROL = (0.25, 0.5, 0.75)  # shares of the integrated learning rate
AMOUNTS = (0.1, 0.875)  # of `spread`
SETTINGS = ("regression", "classification")
RATES = (3e-3, 1e-2, 3e-2)  # at the first step
TASKS, TUNED_ON = tuple(range(10, 20)), (5, 6, 7)
EVALUATION = {
    "batches": 100,
    "batch_size": 1000,
    "activation_batch_size": 1000,
    "tokens": 100_000,
    "draws": 10,
}
SEARCHED = Path(__file__).parents[1] / "study" / "timing_search.csv.gz"  # by docs/scripts/write_search.py
FEW = {"tokens": 10_000, "draws": 2}  # of the test after a trial, whose results nobody reads


@dataclass(frozen=True)
class Arm:
    """A wrong part of training: where it lies, how large it is, and how wrong routing is there."""

    where: str  # "never", "first", "last" or "always"
    share: float
    amount: float
    of_rate: bool = False  # a share of the integrated learning rate, not of steps

    @property
    def steps(self) -> tuple[int, int]:
        """Return the first wrong step, and the first right one after it."""
        if self.where == "first":
            return 0, self._part(self.share)
        return self._part(1 - self.share), STEPS

    def _part(self, share: float) -> int:
        return round(STEPS * (part_of_steps(share) if self.of_rate else share))

    @property
    def routing(self) -> Grid:
        """Return the options of `clamped`."""
        begin, end = self.steps
        options = {"amount": self.amount, "hard": True, "from_step": begin, "until_step": end}
        return grid(variant="clamped", **{f"router.{name}": value for name, value in options.items()})


def part_of_steps(share: float) -> float:
    """Return the first part of a cosine schedule that has this share of its integrated learning rate.

    Example:
        >>> round(part_of_steps(0.5), 3)
        0.265
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if middle + math.sin(math.pi * middle) / math.pi < share else (low, middle)
    return low


def arms() -> list[Arm]:
    """Return the 23 arms of the design."""
    never, always = [Arm("never", 0.0, 0.1)], [Arm("always", 1.0, amount) for amount in AMOUNTS]
    parts = [Arm(where, s, a) for a in AMOUNTS for where in ("first", "last") for s in SHARES]
    return never + parts + always


def control() -> list[Arm]:
    """Return the 12 arms of the control."""
    return [Arm(where, s, a, True) for a in AMOUNTS for where in ("first", "last") for s in CONTROL]


def nearest(arm: Arm) -> Arm:
    """Return the arm of the search whose rate an arm takes: itself, or that with the nearest steps."""

    def distance(other: Arm) -> float:
        return abs(sum((a - b) * sign for a, b, sign in zip(arm.steps, other.steps, (-1, 1), strict=True)))

    if not arm.of_rate:
        return arm
    return min((one for one in arms() if (one.where, one.amount) == (arm.where, arm.amount)), key=distance)


def _shared(setting: str, rate: float, tasks: tuple[int, ...], evaluation: dict[str, int]) -> Grid:
    training = {"steps": STEPS, "learning_rate": rate, "schedule": "cosine", "evaluations": 10}
    protocol = {f"training.{name}": value for name, value in training.items()}
    protocol |= {f"evaluation.{name}": value for name, value in evaluation.items()}
    members = tuple((task, 0) for task in tasks)
    shared = grid(arch="mlp", setting=setting, num_rules=8, width=32, preset="quick", members=members)
    return shared * grid(**protocol)


def trials() -> Iterator[tuple[str, Arm, float, modtf.Cell]]:
    """Yield setting, arm, starting rate and cell of every trial."""
    for setting in SETTINGS:
        for arm in sorted(arms(), key=lambda arm: -arm.amount):
            for rate in RATES:
                [cell] = (_shared(setting, rate, TUNED_ON, EVALUATION | FEW) * arm.routing).cells()
                yield setting, arm, rate, cell


def search() -> list[modtf.Cell]:
    """Return every arm at every starting rate, on tasks that are not reported."""
    return [cell for *_, cell in trials()]


def best_rates() -> dict[tuple[str, Arm], float]:
    """Return the starting rate with the lowest validation loss after training, by setting and arm.

    It is the geometric mean over tasks, evaluated with perfect routing.
    """
    rows = pd.read_csv(SEARCHED)
    rows = rows[(rows["step"] == STEPS) & (rows["measure"] == rows["folder"].map(_measure))]
    losses = np.log(rows["value"].fillna(np.inf)).groupby(rows["folder"]).mean()  # NaN: it diverged
    found: dict[tuple[str, Arm], dict[float, float]] = {}
    for setting, arm, rate, cell in trials():
        if cell.folder in losses:
            found.setdefault((setting, arm), {})[rate] = losses[cell.folder]
    return {
        which: min(rates, key=rates.__getitem__) for which, rates in found.items() if len(rates) == len(RATES)
    }


def reported() -> Iterator[tuple[str, Arm, modtf.Cell]]:
    """Yield setting, arm and cell of the reported tasks, for every arm whose search is complete."""
    rates = best_rates()
    for setting in SETTINGS:
        for arm in (*control(), *arms()):
            if rate := rates.get((setting, nearest(arm))):
                [cell] = (_shared(setting, rate, TASKS, EVALUATION) * arm.routing).cells()
                yield setting, arm, cell


def cells() -> list[modtf.Cell]:
    """Return the arms and the control, each at its rate, on the reported tasks."""
    return [cell for *_, cell in reported()]


def _measure(folder: str) -> str:
    return "loss" if "_regression_" in folder else "error"
