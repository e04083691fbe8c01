"""What a tuning has found, as the disk tells it: its trials, and the validation of their members."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf.cell import Cell
from modtf.protocol import tail_length
from modtf.results.schema import HISTORY, read_values
from modtf.tuning.search import EPOCHS, LONGEST, Search, find_searches

STATUS = {"COMPLETED": "finished", "RUNNING": "unfinished", "FAILED": "failed", "INVALID": "failed"}


@dataclass(frozen=True)
class Trial:
    """One trial of a search."""

    number: int
    values: dict[str, Any]  # what was tried
    cell: Cell
    status: str  # "finished", "unfinished" or "failed"
    objective: float  # the mean over members; infinity if one of them diverged, NaN unless it is finished
    is_whole: bool  # trained as long as the search's own cell: with Hyperband not all are


def trials_of(search: Search, folder: Path) -> list[Trial]:
    """The trials of a search, in the order in which they began.

    Raises:
        ValueError: if a file of KerasTuner's cannot be read.
    """
    found = []
    for path in folder.glob("trial_*/trial.json"):
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            raw, score = state["hyperparameters"]["values"], state["score"]
            status = STATUS[state["status"]]
            found.append(
                Trial(
                    int(state["trial_id"]),
                    search.values_of(raw),
                    search.cell_of(raw),
                    status,
                    float(score) if status == "finished" else math.nan,
                    raw.get(EPOCHS, LONGEST) == LONGEST,
                )
            )
        except (KeyError, StopIteration, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not what tuning writes ({error!r}). Remove the folder {folder} and tune again: "
                "finished trials are found, and not trained again."
            ) from error
    return sorted(found, key=lambda trial: trial.number)


def validation(cell: Cell, folder: str | Path) -> np.ndarray:
    """How well every member of a cell did on validation data, at the end of training.

    The mean over the last evaluations of training, as many as the checkpoint "tail" has: the regression's
    loss, the classification's error in percent. Test data are not looked at.

    Args:
        cell: that was run.
        folder: the cell's own.

    Returns:
        [P], not finite for members that diverged.

    Raises:
        ValueError: if the folder's history is not that of the cell.
    """
    path = Path(folder, HISTORY)
    frame = read_values(path)
    frame = frame[(frame["measure"] == cell.task.performance) & (frame["step"] > 0)]
    table = frame.pivot(index=["data_seed", "seed"], columns="step", values="value")
    if set(table.index) != set(cell.members) or not len(table.columns):
        raise ValueError(f"{path} is not the history of its cell. Remove its folder and run the cell again.")
    tail = sorted(table.columns)[-tail_length(len(table.columns)) :]
    return table.loc[list(cell.members), tail].to_numpy(np.float64).mean(axis=1)


def load_trials(out: str | Path) -> pd.DataFrame:
    """All finished trials in the folder of a tuning, as a tidy table.

    `load_results` reads the same folder: there every trial is a cell, named by `folder` here as there.

    Args:
        out: what was --out of `launch/tune.py`.

    Returns:
        One row per member: search, oracle, the columns of the search's cell (arch, setting, ..., variant,
        model_options), trial, a column for everything that was tuned ("learning_rate", "router.NAME"), steps,
        folder, data_seed, seed, and value, the member's validation as `validation` gives it.

    Raises:
        FileNotFoundError, ValueError: if there is no search, or it cannot be read.

    Example:
        >>> load_trials("runs/tuning").groupby(["variant", "learning_rate"]).value.mean()  # doctest: +SKIP
    """
    rows = []
    for folder, search in find_searches(out).items():
        for trial in trials_of(search, folder):
            if trial.status != "finished":
                continue
            cell, place = trial.cell, Path(out, trial.cell.folder)
            shared = {"search": search.name, "oracle": search.oracle, **search.base.columns}
            shared |= {"trial": trial.number, **trial.values, "steps": cell.protocol.training.steps}
            for (data_seed, seed), value in zip(cell.members, validation(cell, place), strict=True):
                rows.append(
                    {**shared, "folder": str(place), "data_seed": data_seed, "seed": seed, "value": value}
                )
    last = ["steps", "folder", "data_seed", "seed", "value"]
    frame = pd.DataFrame(rows)
    return frame[[*(name for name in frame if name not in last), *last]] if rows else frame
