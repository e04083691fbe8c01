"""The results of a tuning on disk: its trials, and the validation of their members."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.intervals import LEVEL, intervals
from modtf.analysis.table import PERCENT
from modtf.engines.state import state_of
from modtf.pages.text import plural, text_table
from modtf.results.schema import DIVERGED, HISTORY, read_values
from modtf.studies.grid import OPTIONS
from modtf.tasks.cell import Cell
from modtf.tasks.families import IID
from modtf.tasks.protocol import final_of
from modtf.tuning.search import (
    EPOCHS,
    LEARNING_RATE,
    LONGEST,
    Best,
    Search,
    find_searches,
    in_words,
    known_options,
    with_values,
)

SEEDS = ["data_seed", "seed"]  # of a member


@dataclass(frozen=True)
class Trial:
    """One trial of a search."""

    number: int
    values: dict[str, Any]  # the tuned values
    cell: Cell
    status: str  # "finished", "unfinished" or "failed"
    objective: float  # of the worst task; infinity if a member diverged, NaN unless it is finished
    is_whole: bool  # trained as long as the search's own cell; Hyperband cuts some short


def trials_of(search: Search, out: str | Path) -> list[Trial]:
    """Return the trials of a search, in the order in which they run, for which cells exist. Raise
    `ValueError` if a file cannot be read."""
    trials = []
    for number, values in enumerate(search.settings(out)):
        cell, is_whole = search.cell_of(values), values.get(EPOCHS, LONGEST) == LONGEST
        state = state_of(cell, out).name
        objective = worst_validation(cell, out) if state == "finished" else math.nan
        status = state if state in ("finished", "failed") else "unfinished"
        trials.append(Trial(number, search.values_of(values), cell, status, objective, is_whole))
    return trials


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """Return the best trial that trained to the end; None if there is none, or all diverged."""
    whole = [trial for trial in trials if trial.is_whole and math.isfinite(trial.objective)]
    return min(whole, key=lambda trial: trial.objective, default=None)


def validation(cell: Cell, folder: str | Path) -> np.ndarray:
    """Return every member's validation score `[P]` at the end of training. It uses no test data.

    The score is loss, or error in percent: the mean over the evaluations of `final_of`. It is not finite for
    members that diverged. Raise `ValueError` if the folder's history belongs to another cell.
    """
    path = Path(folder, HISTORY)
    every = read_values(path)
    lost = every.loc[every["measure"] == DIVERGED, SEEDS]  # perhaps in a stage that was not evaluated
    frame = every[(every["measure"] == cell.task.performance) & (every["condition"] == IID)]
    table = frame.pivot(index=SEEDS, columns="step", values="value")
    if set(table.index) != set(cell.members) or not max(table.columns, default=0):
        raise ValueError(f"{path} does not belong to its cell. Remove its folder and run the cell again.")
    used = final_of(table.columns, bool(cell.protocol.training.schedule))
    found = table.loc[list(cell.members), used].to_numpy(np.float64).mean(axis=1)
    diverged = set(lost.itertuples(index=False, name=None))
    return np.where([member in diverged for member in cell.members], np.nan, found)


def worst_validation(cell: Cell, out: str | Path) -> float:
    """Return a trial's score: the mean over the seeds of the worst task; infinity if a member diverged.

    A mean over tasks would choose rates at which one task in three does not learn."""
    values = pd.Series(validation(cell, Path(out, cell.folder)), [task for task, _ in cell.members])
    return float(values.groupby(level=0).mean().max()) if np.isfinite(values).all() else math.inf


def add_half_steps(searches: Iterable[Search], out: str | Path) -> list[Cell]:
    """Add a trial half a step below the best learning rate of every finished grid, and return its cell.

    The largest rate that learns on the tasks of a search may not learn on others."""
    cells = {}
    for search in searches:
        trials, known = trials_of(search, out), search.settings(out)
        best = best_trial(trials) if all(trial.status == "finished" for trial in trials) else None
        rate = search.half_steps.get(best.values.get(LEARNING_RATE, 0.0)) if best else None
        if best and rate and (values := {**best.values, LEARNING_RATE: rate}) not in known:
            search.write(out, [*known, values])
            cells[search.cell_of(values).folder] = search.cell_of(values)
    return list(cells.values())


def load_trials(out: str | Path) -> pd.DataFrame:
    """Return all finished trials in the folder of a tuning, as a tidy table.

    `load_results` reads the same folder. There every trial is a cell, with the same name in `folder`.

    Args:
        out: the folder, `--out` of `launch/tune.py`.

    Returns:
        One row per member: search, oracle, the columns of the search's cell (arch, setting, ..., variant,
        model_options), trial, a column for every tuned option ("learning_rate", "router.NAME"), steps,
        folder, data_seed, seed, and value, which is the member's `validation`.

    Raises:
        FileNotFoundError, ValueError: if there is no search, or it cannot be read.

    Example:
        >>> load_trials("runs/tuning").groupby(["variant", "learning_rate"]).value.mean()  # doctest: +SKIP
    """
    rows = []
    for search in find_searches(out):
        for trial in trials_of(search, out):
            if trial.status != "finished":
                continue
            place = Path(out, trial.cell.folder)
            shared = {"search": search.name, "oracle": search.oracle, **search.base.columns}
            shared |= {"trial": trial.number, **trial.values, "steps": trial.cell.protocol.training.steps}
            for (task, seed), value in zip(trial.cell.members, validation(trial.cell, place), strict=True):
                rows.append({**shared, "folder": str(place), "data_seed": task, "seed": seed, "value": value})
    frame = pd.DataFrame(rows)
    last = ["steps", "folder", *SEEDS, "value"]  # options of other searches come before these, too
    return frame[[*(name for name in frame if name not in last), *last]] if rows else frame


def trials_table(search: Search, out: str | Path) -> str:
    """Return all trials of a search, the best first: values, mean and interval over members, state."""
    trials = trials_of(search, out)
    best = best_trial(trials)
    lengths = len({trial.cell.protocol.training.steps for trial in trials}) > 1
    names = [*(path.rpartition(".")[2] for path in search.space), *(["steps"] if lengths else [])]
    header = ["trial", *names, "worst task", f"validation {search.base.task.performance}", "state"]
    body = []
    # by objective: complete trials, then those that Hyperband cut short, then unfinished ones
    for trial in sorted(
        trials, key=lambda t: (math.isnan(t.objective), not t.is_whole, t.objective, t.number)
    ):
        steps = [f"{trial.cell.protocol.training.steps:,}"] if lengths else []
        values = [f"{v:.4g}" if isinstance(v, float) else v for v in trial.values.values()]
        shown, state = _result(trial, out)
        worst = f"{trial.objective:.{_digits(trial)}f}" if math.isfinite(trial.objective) else "-"
        body.append([trial.number, *values, *steps, worst, shown, "best" if trial is best else state])
    return text_table(header, body)


def trials_note(search: Search) -> str:
    """Return the note below the table."""
    members = search.base.members
    tasks = len({data_seed for data_seed, _ in members})
    words = f"mean ±{LEVEL:.0%} interval (Student's t) over {plural(tasks, 'task')}"
    words = words if tasks > 1 else "mean over one task; other tasks may differ, so no interval"
    number = plural(len(members), "member")
    return f"{words}, {number} in every trial; smaller is better. The worst task chooses the best trial."


def _digits(trial: Trial) -> int:
    return 2 if trial.cell.task.performance in PERCENT else 4


def _result(trial: Trial, out: str | Path) -> tuple[str, str]:
    """Return the number to show, and the state."""
    if trial.status != "finished":
        return "-", trial.status
    values = validation(trial.cell, Path(out, trial.cell.folder))
    lost = int((~np.isfinite(values)).sum())
    row = intervals(pd.DataFrame(trial.cell.members, columns=SEEDS).assign(value=values), []).iloc[0]
    digits = _digits(trial)
    shown = "-" if lost == len(values) else f"{row['mean']:.{digits}f}"
    if not np.isnan(row["low"]) and shown != "-":
        shown += f" ±{(row['high'] - row['low']) / 2:.{digits}f}"
    return shown, f"{plural(lost, 'member')} diverged" if lost else "finished"


def use_best(out: str | Path, cells: Sequence[Cell]) -> tuple[list[Cell], list[Best]]:
    """Return the cells with the best values of a tuning, and a description of these values.

    A search applies to a cell if it tuned the cell's task type, variant, architecture and options, given or
    default, and no option that the cell gives. If several do, those of its number of rules and width apply.

    Args:
        out: the folder, `--out` of `launch/tune.py`.
        cells: the cells; their protocols and members may differ from those of the searches.

    Raises:
        FileNotFoundError: if there is no search.
        ValueError: if no search applies to a cell, several do that cannot be compared, or two cells get the
            same values.

    Example:
        >>> cells, found = use_best("runs/tuning", cells)  # doctest: +SKIP
    """
    known = [(search, _best(out, search)) for search in find_searches(out)]
    chosen = [_choose(out, known, cell) for cell in cells]
    tuned = [with_values(cell, best.values) for cell, best in zip(cells, chosen, strict=True)]
    first: dict[str, Cell] = {}
    for cell, one in zip(cells, tuned, strict=True):
        if first.setdefault(one.folder, cell) is not cell:
            raise ValueError(
                f"--best={out}: {_in_words(cell)} has several cells, which would all get the same settings. "
                "Leave out --best, or the values that were tuned."
            )
    return tuned, chosen


def _best(out: str | Path, search: Search) -> Best | None:
    trials = trials_of(search, out)
    trial, finished = best_trial(trials), sum(trial.status == "finished" for trial in trials)
    if trial is None:
        return None
    values = {LEARNING_RATE: search.base.protocol.training.learning_rate, **trial.values}
    # Hyperband may repeat a cell
    equal = {one.cell.folder for one in trials if one.is_whole and one.objective == trial.objective}
    return Best(search, values, trial.objective, finished, len(trials) - finished, len(equal) - 1)


def _choose(out: str | Path, known: Sequence[tuple[Search, Best | None]], cell: Cell) -> Best:
    of_variant = [one for one in known if _kind(one[0].base) == _kind(cell) and _leaves(cell, one[0])]
    of_size = [one for one in of_variant if _size(one[0].base) == _size(cell)] or of_variant
    chosen = [best for _, best in of_size if best is not None]
    # the fields that two searches must share for their objectives to be comparable
    bases = (best.search.base for best in chosen)
    ways = {(_size(base), base.members, base.protocol.replace(learning_rate=1.0)) for base in bases}
    if len(ways) == 1:
        # a wider search may have found the same values
        return min(chosen, key=lambda best: (best.objective, best.search.edge_note(best.values)))
    words = _in_words(cell)
    if chosen:
        names = ", ".join(best.search.name for best in chosen)
        what = f"{words} was tuned in several ways that cannot be compared ({names}). Tune it at R = "
        what += f"{cell.task.num_rules} and width {cell.width}, or move all but one of these folders away."
    elif of_variant:
        what = f"no trial of {words} has finished without diverging. Rerun the same modtf tune command "
        what += "or widen its space."
    else:
        names = ", ".join(dict.fromkeys(_in_words(search.base) for search, _ in known))
        what = f"it holds no search of {words}, only of {names}. Run modtf tune for it first."
    raise ValueError(f"--best={out}: {what}")


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Return the fields that must match before one cell can reuse another's tuned settings."""
    options = [(space, name, value) for space in OPTIONS for name, value in getattr(cell, space).items()]
    chosen = sorted(one for one in options if one[1:] not in known_options(cell, one[0]).items())
    return cell.task.kind, cell.variant, cell.architecture, chosen


def _leaves(cell: Cell, search: Search) -> bool:
    """Return whether a cell gives none of the options that a search tuned, so that it keeps its values."""
    paths = (path.partition(".") for path in search.space)
    return not any(name in getattr(cell, namespace) for namespace, dot, name in paths if dot)


def _size(cell: Cell) -> tuple[int, int]:
    return cell.task.num_rules, cell.width


def _in_words(cell: Cell) -> str:
    options = in_words({**cell.router, **cell.model, **cell.trainer})
    other = f" with {cell.architecture}" if cell.architecture else ""
    return f"{cell.variant} of {cell.task.kind}{other}" + (f" ({options})" if options else "")
