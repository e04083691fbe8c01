"""Trains one population, measures it, and writes what it found as the files that `modtf.results` reads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from modtf.cell import Cell
from modtf.engines.state import CHECKPOINT
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import Scores
from modtf.families import IID
from modtf.files import atomic_path
from modtf.models.base import ModularModel
from modtf.models.build import parameters_of_member
from modtf.population import Population
from modtf.protocol import TRAINING_FACTOR
from modtf.results.schema import (
    DIVERGED,
    write_activations,
    write_history,
    write_results,
)
from modtf.training.callbacks.evaluate import BestWeights, EvaluateCallback, TailCallback
from modtf.training.callbacks.tensorboard import TensorBoardWriter
from modtf.training.train import train

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
    """Goes on from the checkpoint in `folder`, if there is one, and leaves it; `results.csv` is written last.

    Args:
        cell: whose protocol it is.
        population: the cell's members, or the one of them that is trained.
        model, evaluator: of the population.
        folder: to write to.
        callbacks, how: more arguments of `modtf.train`.
    """
    training, sizes, family = cell.protocol.training, cell.protocol.evaluation, population.family
    now = sizes.smaller(TRAINING_FACTOR, family.while_training)
    evaluation = EvaluateCallback(evaluator.on(now, "validation"))
    # a family whose tables speak of another checkpoint may have too many conditions to measure that often
    often = sizes.smaller(TRAINING_FACTOR, sizes.conditions) if family.checkpoint == "tail" else now
    tail = TailCallback(evaluator.on(often, "test"))
    best = BestWeights(evaluation)
    board = TensorBoardWriter(folder / "tensorboard", _settings(cell), evaluation)
    train(
        model,
        population,
        training.steps,
        batch_size=training.batch_size,
        learning_rate=training.learning_rate,
        clipnorm=training.clipnorm,
        evaluations=training.evaluations,
        precision=training.precision,
        evaluation=evaluation,
        checkpoint=folder / CHECKPOINT,
        callbacks=[tail, best, board, *callbacks],
        label=cell.label if population.has_axis else f"{cell.label} {folder.name}",
        **how,
    )
    scores = {"tail": tail.scores()}
    scores["last"] = evaluator.run()
    _save(model, folder, "last")
    if (best.step == training.steps).all():
        scores["best"] = scores["last"]  # of the same weights: a second evaluation would find the same
    else:
        for variable, value in zip(model.weights, best.weights, strict=True):
            variable.assign(value)
        scores["best"] = evaluator.run()
    _save(model, folder, "best")
    board.final(training.steps, {k: float(np.mean(v)) for k, v in scores["last"].named().items()})
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
    write_history(folder, _history(cell, evaluation, np.asarray(model.optimizer.diverged_at)))
    sizes_of_model = evaluator.num_modules, parameters_of_member(model)
    write_results(folder, _results(cell, *sizes_of_model, scores, sum(evaluation.seconds)))


def _results(
    cell: Cell,
    num_modules: Mapping[str, int],
    num_parameters: int,
    scores: Mapping[str, Scores],
    seconds: float,
) -> pd.DataFrame:
    """One row per member, checkpoint, measure, condition and place.

    Args:
        cell: what was trained.
        num_modules: of one member by place; what stands at no place has the largest.
        num_parameters: of one member.
        scores: by checkpoint.
        seconds: that training took, without evaluations.
    """
    steps, members = cell.protocol.training.steps, len(cell.members)
    speed = {"seconds": seconds / members, "members_times_steps_per_second": members * steps / seconds}
    clock = {(name, IID, ""): np.full(members, value) for name, value in speed.items()}
    rows = [
        (*member, checkpoint, *name, value)
        for checkpoint, found in scores.items()
        for name, values in {**found.rows, **clock}.items()
        for member, value in zip(cell.members, values, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["data_seed", "seed", "checkpoint", *MEASURED])
    modules = {"": max(num_modules.values(), default=1), **num_modules}
    found = {"num_modules": frame["place"].map(modules), "num_parameters": num_parameters, "steps": steps}
    return frame.assign(**cell.columns, **found)


def _history(cell: Cell, evaluation: EvaluateCallback, diverged_at: np.ndarray) -> pd.DataFrame:
    """One row per member, evaluation during training and measure.

    A member that diverged has a row more, of measure "diverged", at the very step.

    Args:
        cell: what was trained.
        evaluation: during training.
        diverged_at: steps [P], 0 where a member did not.
    """
    rows = [
        (step, *member, *name, value)
        for name in evaluation.found[0].rows
        for step, found in zip(evaluation.steps, evaluation.found, strict=True)
        for member, value in zip(cell.members, found.rows[name], strict=True)
    ]
    lost = zip(diverged_at, cell.members, strict=True)
    rows += [(int(step), *member, DIVERGED, IID, "", 1.0) for step, member in lost if step]
    return pd.DataFrame(rows, columns=["step", "data_seed", "seed", *MEASURED])


def _settings(cell: Cell) -> dict[str, Any]:
    """What TensorBoard's HParams compares cells by; numbers that are tuned stay numbers."""
    options = {f"router.{name}": value for name, value in cell.router.items()}
    options |= {f"model.{name}": value for name, value in cell.model.items()}
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
