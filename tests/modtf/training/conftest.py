"""A stand-in for an evaluator, with scores that a test prescribes; the families that a test trains."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from modtf.evaluation.scores import Scores
from modtf.tasks.families import with_free_rules
from modtf.tasks.population import Population


class PrescribedEvaluator:
    """Finds the next of `series`, by measure or (measure, condition); activation is even unless given."""

    def __init__(
        self,
        population: Population,
        series: dict[str | tuple[str, str], Sequence[Sequence[float]]],
        activation: np.ndarray | None = None,
        penalty_name: str | None = None,
    ):
        self.identity = None
        self.population, self.penalties = population, {"": penalty_name} if penalty_name else {}
        self.series: dict[tuple[str, str, str], Iterator[Any]] = {
            (*name, "") if isinstance(name, tuple) else (name, "iid", ""): iter(values)
            for name, values in series.items()
        }
        rules = population.task.num_rules
        even = np.full((len(population), rules, rules), 1 / rules)
        self.matrices = even if activation is None else activation

    def run(self, number: int = 0, of: int = 1) -> Scores:
        self.shares = [*getattr(self, "shares", []), (number, of)]
        rows = {key: np.array(next(values), np.float64) for key, values in self.series.items()}
        return Scores(rows, {"": self.matrices})


@pytest.fixture(
    params=[
        pytest.param(arch, marks=[pytest.mark.slow] * (i > 0)) for i, arch in enumerate(with_free_rules())
    ]
)
def arch(request):
    """A family of free R; all but the first are slow."""
    return request.param


@pytest.fixture(scope="session")
def prescribed():
    """prescribed(population, series, ...) -> an evaluator that finds just that."""
    return PrescribedEvaluator


@pytest.fixture(scope="session")
def run_epochs():
    """run_epochs(model, callbacks, epochs, total, steps): calls the callbacks as `fit` does."""

    def run(model, callbacks, epochs, total=None, steps=5):
        for callback in callbacks:
            callback.set_model(model)
            callback.set_params({"epochs": total or len(epochs), "steps": steps})
        for callback in callbacks:
            callback.on_train_begin()
        for epoch in epochs:
            logs = {"loss": 0.5}
            for callback in callbacks:
                callback.on_epoch_begin(epoch)
            for callback in callbacks:
                callback.on_epoch_end(epoch, logs)
        return logs if epochs else {}

    return run
