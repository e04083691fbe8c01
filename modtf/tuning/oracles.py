"""Bayesian optimisation and Hyperband: KerasTuner's oracles, run in this process for one trial at a time.

KerasTuner writes several files in place, and a kill can interrupt it between two of them. Here its state and
trials are one file, which is replaced atomically before a trial begins and after it has ended.
"""

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras_tuner
import numpy as np
from keras_tuner.engine.base_tuner import BaseTuner
from keras_tuner.engine.trial import Trial

from modtf.base.files import read_text, scratch_folder, write_text
from modtf.base.space import Values
from modtf.tasks.cell import Cell
from modtf.tuning.search import LONGEST, SPREAD, Search, in_words, unreadable
from modtf.tuning.trials import worst_validation

STATE = "oracle.json"  # in the folder of a search
OBJECTIVE = "validation"
ASKS = "tuner0"  # the only tuner
COLLISIONS = 10_000  # draws of known settings; after KerasTuner's 20, Hyperband's later rounds are lost
RUNNING, COMPLETED, FAILED = "RUNNING", "COMPLETED", "FAILED"

Run = Callable[[Sequence[Cell]], Mapping[str, str]]  # runs cells; failed folders -> reasons


class Bayesian(keras_tuner.oracles.BayesianOptimizationOracle):
    """KerasTuner's Gaussian process, after some random trials."""

    def populate_space(self, trial_id):
        """Choose the next trial.

        A diverged trial counts as the worst finished one. KerasTuner would score it 0, the best value.
        """
        # the state is not saved, and a resumed search has to draw as one that was not interrupted
        self._random_state = np.random.RandomState(self.seed + len(self.start_order))
        ended = [trial for trial in self.trials.values() if trial.status == COMPLETED]
        worst = max((trial.score for trial in ended if math.isfinite(trial.score)), default=0.0)
        for trial in ended:
            trial.score = min(trial.score, worst)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about fits to few points
            proposal = super().populate_space(trial_id)
        for trial in ended:
            self.score_trial(trial)
        return proposal


def run_search(search: Search, out: Path, run: Run, limit: int | None, retry_failed: bool) -> None:
    """Run or resume a search. Return when its trials have ended.

    `run` decides about cells that failed before. A `limit` of None allows as many trials as the oracle takes.
    """
    with scratch_folder() as scratch:
        oracle = _make_oracle(search, limit)
        BaseTuner(oracle, directory=scratch, project_name="own")  # KerasTuner's files, which are not used
        again = _load(oracle, search.folder(out), retry_failed)
        while (trial := again.pop(0) if again else oracle.create_trial(ASKS)).status == RUNNING:
            _save(oracle, search, out)
            begun, values = time.monotonic(), trial.hyperparameters.values
            cell = search.cell_of(values)
            trial.message = run([cell]).get(cell.folder)
            if trial.message is None:
                trial.status, worst = COMPLETED, worst_validation(cell, out)
                oracle.update_trial(trial.trial_id, {OBJECTIVE: worst})
                result = f"{cell.task.performance} {worst:.4g}, {time.monotonic() - begun:.0f} s"
            else:
                trial.status = FAILED
                result = f"failed: {trial.message}; {out / cell.folder}/error.json has more"
            oracle.end_trial(trial)
            tried = in_words(search.values_of(values))
            print(f"{cell.variant} trial {int(trial.trial_id)}, {tried}: {result}", flush=True)
        _save(oracle, search, out)


def _make_oracle(search: Search, limit: int | None) -> keras_tuner.Oracle:
    """Return the oracle of a search that has not begun."""
    space = keras_tuner.HyperParameters()
    for path, axis in search.space.items():
        if isinstance(axis, Values):
            space.Choice(path, list(axis.values))
        else:
            numbers = space.Int if axis.is_whole else space.Float
            numbers(path, axis.low, axis.high, sampling="log" if axis.log else "linear")
    options: dict[str, Any] = {
        "objective": keras_tuner.Objective(OBJECTIVE, "min"),
        "hyperparameters": space,
        "allow_new_entries": False,
        "seed": SPREAD * search.seed,
        "max_consecutive_failed_trials": sys.maxsize,
    }
    if search.oracle == "hyperband":
        oracle = keras_tuner.oracles.HyperbandOracle(max_epochs=LONGEST, factor=3, **options)
    else:
        oracle = Bayesian(**options)
    oracle.max_trials, oracle.verbose = limit, 0
    oracle._max_collisions = COLLISIONS
    return oracle


def _save(oracle: keras_tuner.Oracle, search: Search, out: Path) -> None:
    """Write the oracle's state, then the settings of its trials."""
    trials = [oracle.trials[name].get_state() for name in oracle.start_order]
    write_text(search.folder(out) / STATE, json.dumps({**oracle.get_state(), "trials": trials}))
    search.write(out, [trial["hyperparameters"]["values"] for trial in trials])


def _load(oracle: keras_tuner.Oracle, folder: Path, retry_failed: bool) -> list[Trial]:
    """Read the state from disk. Return the trials to run again."""
    path = folder / STATE
    if not path.exists():
        return []
    try:
        state = json.loads(read_text(path))
        trials = {record["trial_id"]: Trial.from_state(record) for record in state["trials"]}
        oracle.trials = {name: trials[name] for name in state["start_order"]}
        oracle.set_state({**state, "ongoing_trials": {}})
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(path, error) from error
    again = [
        t for t in oracle.trials.values() if t.status == RUNNING or (retry_failed and t.status == FAILED)
    ]
    for trial in again:
        trial.status = RUNNING
    return again
