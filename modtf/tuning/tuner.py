"""KerasTuner's loop, whose trials are cells."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras_tuner
import numpy as np
from keras_tuner.engine import base_tuner
from tqdm.auto import tqdm

from modtf.cell import Cell
from modtf.engines.perform import CellFunction, Outcome, Report, Work, perform
from modtf.engines.study import AGAIN
from modtf.tuning.oracles import COMPLETED, OBJECTIVE, Durable
from modtf.tuning.patient import POLL
from modtf.tuning.search import DEFINITION, Search, in_words
from modtf.tuning.trials import validation


class PopulationTuner(base_tuner.BaseTuner):
    """Trains a population in every trial.

    Args:
        search: what is tuned.
        work: where and how cells are trained.
        oracle: of the search; a worker's asks the chief.
        writes: whether this process writes the oracle's files, as chiefs do and who tunes alone.
        function: what trains a cell, of `work.prepare()`; a chief needs none.
        say: is given a line for every trial that has ended.
        shown: whether to show a progress bar.
    """

    def __init__(
        self,
        search: Search,
        work: Work,
        oracle: Durable,
        writes: bool,
        function: CellFunction | None,
        say: Callable[[str], None],
        shown: bool,
    ):
        folder = search.folder(work.out)
        super().__init__(oracle, directory=str(folder.parent), project_name=folder.name)
        self._search, self._work, self._writes = search, work, writes
        self._function, self._say, self._shown = function, say, shown
        self._asked = False
        self._said = ""

    def save(self):
        """The oracle's state, nothing else."""
        if self._writes:
            self.oracle.save()

    def pre_create_trial(self):
        """Waits between questions: KerasTuner itself asks again at once."""
        if self._asked:
            time.sleep(POLL)
        self._asked = True

    def on_trial_begin(self, trial):
        """Refuses another search's trial: a chief does not say which it runs."""
        self._asked = False
        if not (self._search.folder(self._work.out) / DEFINITION).exists():
            raise ValueError(
                "The chief runs another search than this worker. Give both the same flags, --out included."
            )

    def run_trial(self, trial, *fit_args, **fit_kwargs):
        """The mean over members of their validation; infinity if one diverged."""
        assert self._function is not None
        cell = self._search.cell_of(trial.hyperparameters.values)
        begun, steps = time.monotonic(), cell.protocol.training.steps
        self._said = f"failed; see {Path(self._work.out, cell.folder)}/error.json"
        label = f"{cell.variant} trial {int(trial.trial_id)}"
        with tqdm(total=steps, desc=label, unit=" steps", leave=False, disable=not self._shown) as bar:

            def report(done: int) -> None:
                bar.update(done - bar.n)

            outcome = finish(cell, self._work, self._function, report)
        if outcome.status == "stopped":
            raise keras_tuner.errors.FatalValueError(outcome.reason)
        if outcome.status == "failed":
            self._said = f"failed: {outcome.reason}; see {Path(self._work.out, cell.folder)}/error.json"
            raise keras_tuner.errors.FailedTrialError(outcome.reason)
        found = validation(cell, Path(self._work.out, cell.folder))
        mean = float(np.mean(found)) if np.isfinite(found).all() else float("inf")
        self._said = f"{cell.task.performance} {mean:.4g}, {time.monotonic() - begun:.0f} s"
        return {OBJECTIVE: mean}

    def on_trial_end(self, trial):
        super().on_trial_end(trial)
        values = in_words(self._search.values_of(trial.hyperparameters.values))
        said = self._said
        if trial.status != COMPLETED and not said.startswith("failed"):  # its results cannot be read
            said = f"failed: {str(trial.message).strip().splitlines()[-1]}"
        self._say(f"{self._search.base.variant} trial {int(trial.trial_id)}, {values}: {said}")


def finish(cell: Cell, work: Work, function: CellFunction, report: Report) -> Outcome:
    """Performs a cell, whoever else may be working on it."""
    while True:
        outcome = perform(cell, work, function, report)
        if outcome.status not in AGAIN:
            return outcome
        time.sleep(POLL)


def oracle_state(oracle: Any) -> Path:
    """The file of an oracle's state."""
    return Path(oracle._get_oracle_fname())
