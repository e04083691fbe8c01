"""KerasTuner's oracles, made to survive being killed at any moment, and workers that never come back.

KerasTuner writes its files in place, keeps trials of dead workers for them, forgets at a restart where its
grid was, and ends when many trials in a row have failed.
"""

import itertools
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import keras_tuner
import numpy as np

from modtf.files import write_text
from modtf.space import Axis, Choice
from modtf.tuning import ORACLES
from modtf.tuning.search import LONGEST

OBJECTIVE = "validation"
SPREAD = 10_007  # times the seed: KerasTuner counts up from it, so that neighbours would draw the same
RUNNING, COMPLETED, FAILED, STOPPED, IDLE = "RUNNING", "COMPLETED", "FAILED", "STOPPED", "IDLE"


def hyperparameters_of(space: Mapping[str, Axis]) -> Any:
    """A space, as KerasTuner has it."""
    found = keras_tuner.HyperParameters()
    for path, axis in space.items():
        if isinstance(axis, Choice):
            found.Choice(path, list(axis.values))
        else:
            numbers = found.Int if axis.is_whole else found.Float
            numbers(path, axis.low, axis.high, sampling="log" if axis.log else "linear")
    return found


class Durable(keras_tuner.Oracle):
    """What all oracles here have in common.

    Args:
        hyperparameters: the space, all of it.
        limit: of the number of trials; None for as many as the oracle's strategy takes.
        seed: at least 1.

    `is_alive(tuner_id)` says whether the process that asks by that name is there still.
    """

    needs_choices: ClassVar[bool] = False  # whether ranges become some of their values
    settings_needed: ClassVar[int] = 0  # different ones that its strategy cannot do without
    usual_limit: ClassVar[int | None] = None  # of the number of trials, where nobody gives one

    is_alive: Callable[[str], bool] = staticmethod(lambda tuner_id: True)

    def __init__(self, hyperparameters: Any, limit: int | None = None, seed: int = 1, **options: Any):
        super().__init__(
            objective=keras_tuner.Objective(OBJECTIVE, "min"),
            hyperparameters=hyperparameters,
            allow_new_entries=False,
            seed=SPREAD * seed,
            max_consecutive_failed_trials=sys.maxsize,
            **options,
        )
        self.max_trials = limit
        self.verbose = 0

    @keras_tuner.synchronized
    def create_trial(self, tuner_id):
        """A trial for a worker; none while others may still leave theirs to it."""
        self.requeue_the_dead()
        trial = super().create_trial(tuner_id)
        if trial.status == STOPPED and self.ongoing_trials:
            trial.status = IDLE
            self.tuner_ids.add(tuner_id)
        return trial

    @keras_tuner.synchronized
    def requeue_the_dead(self):
        """Whoever asks next gets the trials of workers that are gone."""
        for tuner_id in [
            name for name in self.tuner_ids | set(self.ongoing_trials) if not self.is_alive(name)
        ]:
            self.tuner_ids.discard(tuner_id)
            trial = self.ongoing_trials.pop(tuner_id, None)
            if trial is not None:
                self._retry_queue.append(trial.trial_id)

    def retry_failed(self) -> None:
        """Failed trials are tried again."""
        for trial in self.trials.values():
            if trial.status == FAILED:
                trial.status = RUNNING
                self._retry_queue.append(trial.trial_id)

    def save(self):
        """All at once."""
        write_text(self._get_oracle_fname(), json.dumps(self.get_state()))

    def _save_trial(self, trial):
        write_text(Path(self._get_trial_dir(trial.trial_id), "trial.json"), json.dumps(trial.get_state()))

    def reload(self):
        """Every trial that was begun and not ended waits again, unless a process still works on it."""
        state = json.loads(Path(self._get_oracle_fname()).read_text(encoding="utf-8"))
        super().reload()
        begun = set(self.start_order)
        for name in set(self.trials) - begun:
            del self.trials[name]
        running = {name for name, trial in self.trials.items() if trial.status == RUNNING}
        self.ongoing_trials = {
            tuner_id: self.trials[name]
            for tuner_id, name in state["ongoing_trials"].items()
            if name in running and self.is_alive(tuner_id)
        }
        self.tuner_ids = set(self.ongoing_trials)
        held = {trial.trial_id for trial in self.ongoing_trials.values()}
        self._retry_queue = sorted(running - held, key=int, reverse=True)  # the last is taken first
        ended = set(self.end_order)
        self.end_order += [name for name in self.start_order if name not in running | ended]


@ORACLES.register("grid")
class Grid(Durable):
    """All combinations, in order."""

    needs_choices = True

    def populate_space(self, trial_id):
        axes = {axis.name: list(axis.values) for axis in self.hyperparameters.space}
        rows = itertools.islice(itertools.product(*axes.values()), len(self.trials), None)
        values = next(rows, None)
        if values is None:
            return {"status": STOPPED, "values": None}
        return {"status": RUNNING, "values": dict(zip(axes, values, strict=True))}


@ORACLES.register("random")
class Random(Durable, keras_tuner.oracles.RandomSearchOracle):
    """Drawn at random, no setting twice."""

    usual_limit = 10


@ORACLES.register("hyperband")
class Hyperband(Durable, keras_tuner.oracles.HyperbandOracle):
    """Many short trials, of which the best are trained three and nine times as long."""

    settings_needed = 17  # of its first rounds: 9 + 5 + 3

    def __init__(self, hyperparameters: Any, limit: int | None = None, seed: int = 1):
        super().__init__(hyperparameters, limit, seed, max_epochs=LONGEST, factor=3)


@ORACLES.register("bayesian")
class Bayesian(Durable, keras_tuner.oracles.BayesianOptimizationOracle):
    """Where a Gaussian process expects the most, after some trials at random."""

    usual_limit = 10

    def populate_space(self, trial_id):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits to few points
            return super().populate_space(trial_id)

    def _vectorize_trials(self):
        """A trial that diverged is as bad as the worst that did not; KerasTuner would call it 0, the best."""
        x, y = super()._vectorize_trials()
        finite = y[np.isfinite(y)]
        return x, np.where(np.isfinite(y), y, finite.max() if finite.size else 0.0)
