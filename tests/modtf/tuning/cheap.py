"""Trials without training, for other processes too: referred to as "cheap:train" from this folder."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
from dummy import Here

from modtf.base.space import parse_axis
from modtf.engines.run_study import run_study
from modtf.results.schema import write_history
from modtf.studies import grid
from modtf.studies.grid import shard_of
from modtf.tuning import LISTS, Search
from modtf.tuning.search import begin_lists
from modtf.tuning.trials import Trial, trials_of

BEST = 1e-3  # learning rate
SETTINGS = {"num_rules": 2, "width": 4, "variant": "modular", "training.steps": 90, "training.evaluations": 2}
SETTINGS |= {"arch": "mlp", "preset": "quick", "members": ((0, 0), (1, 0))}


class Tune:
    """tune(search, limit=n) -> its trials, after it has run or gone on."""

    def __init__(self, out: Path):
        self.out = out

    def __call__(
        self,
        *searches: Search,
        limit: int | None = None,
        function: str = "cheap:train",
        retry_failed: bool = False,
        shard: str = "0/1",
    ) -> list[Trial]:
        def run(cells):
            how: Any = {"retry_failed": retry_failed, "function": function, "shown": False}
            return run_study(cells, self.out, Here(), **how).failed

        if searches[0].oracle in LISTS:
            run(shard_of(begin_lists(searches, self.out, limit), shard))
        else:
            from modtf.tuning.oracles import run_search  # KerasTuner takes time

            run_search(searches[0], self.out, run, limit, retry_failed)
        return trials_of(searches[0], self.out)


def search_of(axis: str, oracle: str = "grid", **point: Any) -> Search:
    """A search of the learning rate alone, of two members."""
    (base,) = grid(**{**SETTINGS, **point}).cells()
    return Search(base, {"learning_rate": parse_axis(axis)}, oracle)


def loss(rate: float) -> float:
    """Return the loss of task 0 at the end; that of task 1 is 0.2 more."""
    return (math.log10(rate) - math.log10(BEST)) ** 2


def train(cell, out, report):
    """A history that falls to `loss`; 0.5 diverges in task 1, 0.05 raises.

    A letter in the file "runs" of the cell's folder says how often it was begun.
    """
    folder = Path(out, cell.folder)
    folder.mkdir(exist_ok=True)
    with Path(folder, "runs").open("a") as file:
        file.write("x")
    if cell.protocol.training.learning_rate == 0.05:
        raise ValueError("this rate\nis not liked")
    return forgiving(cell, out, report)


def forgiving(cell, out, report):
    """Likes every rate."""
    rate, steps = cell.protocol.training.learning_rate, cell.protocol.training.steps
    folder = Path(out, cell.folder)
    rows = [
        (step, data_seed, seed, "loss", "iid", _value(rate, data_seed, step / steps))
        for step in (0, steps // 2, steps)
        for data_seed, seed in cell.members
    ]
    columns = ["step", "data_seed", "seed", "measure", "condition", "value"]
    write_history(folder, pd.DataFrame(rows, columns=columns))
    (folder / "config.json").write_text(json.dumps(cell.to_dict()))
    (folder / "results.csv").write_text("results\n")
    report(steps)
    return folder


def _value(rate: float, data_seed: int, share: float) -> float:
    if rate == 0.5 and data_seed == 1:
        return math.nan
    return loss(rate) + 0.2 * data_seed + 5 * (1 - share)
