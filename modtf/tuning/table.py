"""The trials of a search as a reader sees them."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.contents import plural
from modtf.analysis.intervals import LEVEL, intervals
from modtf.analysis.table import PERCENT
from modtf.analysis.text import text_table
from modtf.tuning.best import best_trial
from modtf.tuning.search import Search
from modtf.tuning.trials import Trial, trials_of, validation


def trials_table(search: Search, out: str | Path, level: float = LEVEL) -> str:
    """All trials of a search, the best first: what was tried, mean and interval over members, state.

    Args:
        search: which.
        out: the folder of the tuning.
        level: of the interval, over tasks as everywhere.
    """
    trials = trials_of(search, search.folder(out))
    best = best_trial(trials)
    lengths = len({trial.cell.protocol.training.steps for trial in trials}) > 1
    measure = search.base.task.performance
    names = [path.rpartition(".")[2] for path in search.space]
    header = ["trial", *names, *(["steps"] if lengths else []), f"validation {measure}", "state"]
    body = []
    for trial in sorted(trials, key=_order):
        steps = [f"{trial.cell.protocol.training.steps:,}"] if lengths else []
        values = [f"{v:.4g}" if isinstance(v, float) else v for v in trial.values.values()]
        shown, state = _result(trial, Path(out, trial.cell.folder), measure, level)
        body.append([trial.number, *values, *steps, shown, "best" if trial is best else state])
    return text_table(header, body)


def trials_note(search: Search, level: float = LEVEL) -> str:
    """What stands below the table."""
    members = search.base.members
    tasks = len({data_seed for data_seed, _ in members})
    if tasks > 1:
        said = f"mean ±{level:.0%} interval (Student's t) over {plural(tasks, 'task')}"
    else:
        said = "mean of one task; other tasks may differ, so no interval"
    return f"{said}, {plural(len(members), 'member')} in every trial; smaller is better."


def _order(trial: Trial) -> tuple[Any, ...]:
    """Whole trials before those that Hyperband cut short, then by objective; unfinished ones last."""
    return math.isnan(trial.objective), not trial.is_whole, trial.objective, trial.number


def _result(trial: Trial, folder: Path, measure: str, level: float) -> tuple[str, str]:
    """The number to show, and the state."""
    if trial.status != "finished":
        return "-", trial.status
    found = validation(trial.cell, folder)
    lost = int((~np.isfinite(found)).sum())
    frame = pd.DataFrame(trial.cell.members, columns=["data_seed", "seed"]).assign(value=found)
    row = intervals(frame, [], level=level).iloc[0]
    digits = 2 if measure in PERCENT else 4
    shown = "-" if lost == len(found) else f"{row['mean']:.{digits}f}"
    if not np.isnan(row["low"]) and shown != "-":
        shown += f" ±{(row['high'] - row['low']) / 2:.{digits}f}"
    return shown, f"{plural(lost, 'member')} diverged" if lost else "finished"
