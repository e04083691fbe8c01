"""Trains one population, measures it, and writes what it found as the files that `modtf.results` reads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from modtf.cell import Cell
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import Scores
from modtf.families import IID
from modtf.files import atomic_path
from modtf.models.base import ModularModel
from modtf.models.build import parameters_of_member
from modtf.population import Population
from modtf.results.schema import DIVERGED, write_activations, write_history, write_results
from modtf.training.callbacks.tensorboard import TensorBoardWriter
from modtf.training.trainer import TrainerContext, trainer_of

MEASURED = ("measure", "condition", "place", "value")


def train_and_write(
    cell: Cell,
    population: Population,
    model: keras.Model,
    evaluator: Evaluator,
    folder: Path,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **how: Any,
) -> None:
    """Goes on from the checkpoints in `folder`, if there are any, and leaves them; `results.csv` comes last.

    Args:
        cell: whose protocol it is.
        population: the cell's members, or the one of them that is trained.
        model, evaluator: of the population.
        folder: to write to.
        callbacks, how: more arguments of `modtf.train`.
    """
    label = cell.label if population.has_axis else f"{cell.label} {folder.name}"
    context = TrainerContext(cell, population, model, evaluator, folder, callbacks, label, **how)
    evaluation = context.evaluation
    board = TensorBoardWriter(folder / "tensorboard", _settings(cell), evaluation)
    context.measuring.append(board)
    trainer_of(cell)(context)
    scores, best = {"tail": context.tail.scores()}, context.best
    scores["last"] = evaluator.run()
    _save(model, folder, "last")
    if (best.step == context.steps).all():
        scores["best"] = scores["last"]  # of the same weights: a second evaluation would find the same
    else:
        best.restore()
        scores["best"] = evaluator.run()
    _save(model, folder, "best")
    scores = {name: replace(found, rows={**found.rows, **context.rows}) for name, found in scores.items()}
    board.final(context.steps, {k: float(np.mean(v)) for k, v in scores["last"].named().items()})
    write_activations(
        folder,
        **{name: found.activation for name, found in scores.items() if name != "tail"},
        history={
            place: np.stack([found.activation[place] for found in evaluation.found])
            for place in evaluator.num_modules
        },
        steps=evaluation.steps,
        data_seeds=[task.data_seed for task in population.tasks],
        seeds=population.seeds,
    )
    write_history(folder, _history(context, cell))
    write_results(folder, _results(context, cell, evaluator.num_modules, scores))


def _results(
    context: TrainerContext, cell: Cell, num_modules: Mapping[str, int], scores: Mapping[str, Scores]
) -> pd.DataFrame:
    """One row per member, checkpoint, measure, condition and place; `num_modules` are of places: what stands
    at none has the largest."""
    members, seconds = len(cell.members), sum(context.evaluation.seconds) + context.seconds
    timed = members * context.steps / seconds
    speed = {"seconds": seconds / members, "members_times_steps_per_second": timed}
    clock = {(name, IID, ""): np.full(members, value) for name, value in speed.items()}
    rows = [
        (*member, checkpoint, *name, value)
        for checkpoint, found in scores.items()
        for name, values in {**found.rows, **clock}.items()
        for member, value in zip(cell.members, values, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["data_seed", "seed", "checkpoint", *MEASURED])
    modules = {"": max(num_modules.values(), default=1), **num_modules}
    parameters = parameters_of_member(context.model)
    found = {"num_modules": frame["place"].map(modules), "num_parameters": parameters}
    return frame.assign(**cell.columns, **found, steps=context.steps)


def _history(context: TrainerContext, cell: Cell) -> pd.DataFrame:
    """One row per member, evaluation during training and measure.

    A member that diverged has a row more, of measure "diverged", at the very step.
    """
    evaluation = context.evaluation
    rows = [
        (step, *member, *name, value)
        for name in evaluation.found[0].rows
        for step, found in zip(evaluation.steps, evaluation.found, strict=True)
        for member, value in zip(cell.members, found.rows[name], strict=True)
    ]
    lost = zip(context.diverged_at, cell.members, strict=True)
    rows += [(int(step), *member, DIVERGED, IID, "", 1.0) for step, member in lost if step]
    return pd.DataFrame(rows, columns=["step", "data_seed", "seed", *MEASURED])


def _settings(cell: Cell) -> dict[str, Any]:
    """What TensorBoard's HParams compares cells by; numbers that are tuned stay numbers."""
    given = {"router": cell.router, "model": cell.model, "trainer": cell.trainer}
    options = {f"{space}.{name}": value for space, some in given.items() for name, value in some.items()}
    return {
        **{name: str(value) for name, value in cell.columns.items() if value != ""},
        "learning_rate": cell.protocol.training.learning_rate,
        **{name: v if isinstance(v, bool | int | float) else str(v) for name, v in options.items()},
    }


def _save(model: keras.Model, folder: Path, name: str) -> None:
    """Writes `NAME.keras`, or of a registered model the weights: the function that makes it loads them."""
    whole = isinstance(model, ModularModel)
    with atomic_path(folder / f"{name}.{'keras' if whole else 'weights.h5'}") as temporary:
        (model.save if whole else model.save_weights)(temporary)
