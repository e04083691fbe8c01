"""Bayesian optimisation and Hyperband: KerasTuner's oracles, asked in this process for one trial at a time.

KerasTuner writes its files in place, several of them: a kill may come in between. Here its state and its
trials are one file, which is replaced whole before a trial begins and after it has ended.
"""

import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras_tuner
from filelock import FileLock, Timeout
from keras_tuner.engine.base_tuner import BaseTuner
from keras_tuner.engine.trial import Trial

from modtf.cell import Cell
from modtf.engines.study import Summary
from modtf.files import write_text
from modtf.space import Axis, Choice
from modtf.tuning.search import LONGEST, SPREAD, Search, in_words
from modtf.tuning.trials import mean_validation, unreadable

STATE = "oracle.json"
LOCK = "lock"
OBJECTIVE = "validation"
ASKS = "tuner0"  # who does; there is nobody else
RUNNING, COMPLETED, FAILED = "RUNNING", "COMPLETED", "FAILED"


class Bayesian(keras_tuner.oracles.BayesianOptimizationOracle):
    """Where a Gaussian process expects the most, after some trials at random."""

    def populate_space(self, trial_id):
        """A trial that diverged is as bad as the worst that did not; KerasTuner would call it 0, the best."""
        ended = [trial for trial in self.trials.values() if trial.status == COMPLETED]
        worst = max((trial.score for trial in ended if math.isfinite(trial.score)), default=0.0)
        for trial in ended:
            trial.score = min(trial.score, worst)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits to few points
            found = super().populate_space(trial_id)
        for trial in ended:
            self.score_trial(trial)
        return found


def run_search(
    search: Search,
    out: Path,
    run: Callable[[Sequence[Cell]], Summary],
    limit: int | None,
    retry_failed: bool,
    say: Callable[[str], None],
) -> None:
    """Runs a search, or goes on with it; one process at a time. See `modtf.tuning.run.run_searches`."""
    folder = search.folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("Another process does this search already; waiting for it to end.")
        lock.acquire()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            oracle = make_oracle(search, limit)
            BaseTuner(oracle, directory=scratch, project_name="own")  # where it writes what nobody reads
            again = load(oracle, folder, retry_failed)
            while (trial := again.pop(0) if again else oracle.create_trial(ASKS)).status == RUNNING:
                save(oracle, search, out)
                _run_trial(trial, oracle, search, out, run, say)
            save(oracle, search, out)
    finally:
        lock.release()


def make_oracle(search: Search, limit: int | None) -> keras_tuner.Oracle:
    """The oracle of a search that has not begun."""
    options: dict[str, Any] = {
        "objective": keras_tuner.Objective(OBJECTIVE, "min"),
        "hyperparameters": hyperparameters_of(search.space),
        "allow_new_entries": False,
        "seed": SPREAD * search.seed,
        "max_consecutive_failed_trials": sys.maxsize,
    }
    if search.oracle == "hyperband":
        found = keras_tuner.oracles.HyperbandOracle(max_epochs=LONGEST, factor=3, **options)
    else:
        found = Bayesian(**options)
    found.max_trials, found.verbose = limit, 0
    return found


def hyperparameters_of(space: Mapping[str, Axis]) -> keras_tuner.HyperParameters:
    """A space, as KerasTuner has it."""
    found = keras_tuner.HyperParameters()
    for path, axis in space.items():
        if isinstance(axis, Choice):
            found.Choice(path, list(axis.values))
        else:
            numbers = found.Int if axis.is_whole else found.Float
            numbers(path, axis.low, axis.high, sampling="log" if axis.log else "linear")
    return found


def save(oracle: keras_tuner.Oracle, search: Search, out: Path) -> None:
    """Writes the oracle's state, then what its trials try."""
    trials = [oracle.trials[name].get_state() for name in oracle.start_order]
    write_text(search.folder(out) / STATE, json.dumps({**oracle.get_state(), "trials": trials}))
    search.write(out, [trial["hyperparameters"]["values"] for trial in trials])


def load(oracle: keras_tuner.Oracle, folder: Path, retry_failed: bool) -> list[Trial]:
    """Takes up what `save` wrote, or an earlier modtf; returns the trials that are to be run again."""
    path = folder / STATE
    if not path.exists():
        return []
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if "trials" not in state:  # then KerasTuner itself wrote it, and a file for every trial
            files = folder.glob("trial_*/trial.json")
            state["trials"] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        trials = {one["trial_id"]: Trial.from_state(one) for one in state["trials"]}
        oracle.trials = {name: trials[name] for name in state["start_order"]}
        oracle.set_state({**state, "ongoing_trials": {}})
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(path, error) from error
    wanted = (RUNNING, FAILED) if retry_failed else (RUNNING,)
    again = [trial for trial in oracle.trials.values() if trial.status in wanted]
    for trial in again:
        trial.status = RUNNING
    return again


def _run_trial(
    trial: Trial,
    oracle: keras_tuner.Oracle,
    search: Search,
    out: Path,
    run: Callable[[Sequence[Cell]], Summary],
    say: Callable[[str], None],
) -> None:
    begun, values = time.monotonic(), trial.hyperparameters.values
    cell = search.cell_of(values)
    summary = run([cell])
    if summary.stopped:
        raise ValueError(summary.stopped)
    trial.message = summary.failed.get(cell.folder)
    if trial.message is None:
        mean = mean_validation(cell, out)
        oracle.update_trial(trial.trial_id, {OBJECTIVE: mean})
        trial.status = COMPLETED
        said = f"{cell.task.performance} {mean:.4g}, {time.monotonic() - begun:.0f} s"
    else:
        trial.status = FAILED
        said = f"failed: {trial.message}; see {out / cell.folder}/error.json"
    oracle.end_trial(trial)
    say(f"{cell.variant} trial {int(trial.trial_id)}, {in_words(search.values_of(values))}: {said}")
