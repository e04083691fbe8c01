"""Trains one population, measures it, and writes the files that `modtf.results` reads."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from modtf.base.files import atomic_path
from modtf.base.registry import resolve
from modtf.base.words import LOGS
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.programs import reuse
from modtf.evaluation.scores import Scores, stack_scores, without
from modtf.models.base import ModularModel
from modtf.models.build import parameters_of_member
from modtf.models.kernels.by_device import kernels
from modtf.results.schema import DIVERGED, write_activations, write_history, write_results
from modtf.tasks.cell import UNSAFE, Cell
from modtf.tasks.families import IID
from modtf.tasks.family import TRAINER
from modtf.tasks.population import Population
from modtf.training.callbacks.tensorboard import TensorBoardWriter
from modtf.training.trainer import TrainerContext

MEASURED = ("measure", "condition", "place", "value")


def train_cell(
    cell: Cell,
    model: keras.Model,
    folder: Path,
    population: Population | None = None,
    *,
    data: str = "auto",
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **how: Any,
) -> None:
    """Train one population, from the checkpoints in `folder` if there are any, and write its files.

    Checkpoints stay; `results.csv` is written last. `population` holds the members to train, by default the
    cell's. A compiled model of the same shape may replace `model`. The rest are arguments of `modtf.train`.
    """
    population = population or cell.population
    label = cell.label if population.has_axis else f"{cell.label} {folder.name}"
    measures = partial(Evaluator, model, population, cell.protocol.evaluation, data=data)
    with reuse(_reuse_key(cell, model, data), model, population, measures) as (model, evaluator):
        context = TrainerContext(
            cell, population, model, evaluator, folder, callbacks, label, data=data, **how
        )
        evaluation = context.evaluation
        whole = folder if population.has_axis else folder.parents[1]  # members in turn are one trial
        logs = whole.parent / LOGS / run_name(cell, whole.name) / ("" if whole == folder else folder.name)
        board = TensorBoardWriter(logs, whole.name, _settings(cell), evaluation)
        context.measuring.append(board)
        context.trainer(context, **context.options)
        scores, best = {"tail": context.tail.scores()}, context.best
        scores["last"] = evaluator.run()
        _save(model, folder, "last")
        if (best.step == context.steps).all():
            scores["best"] = scores["last"]  # a second evaluation of the same weights is redundant
        else:
            best.restore()
            scores["best"] = without(evaluator.run(), best.step == 0)  # there they are the initial weights
        _save(model, folder, "best")
        scores = {name: without(one, context.untrained) for name, one in scores.items()}
        scores = {name: replace(one, rows={**one.rows, **context.rows}) for name, one in scores.items()}
        board.final(context.steps, {k: float(np.mean(v)) for k, v in scores["last"].named().items()})
        write_activations(
            folder,
            **{name: one.activation for name, one in scores.items() if name != "tail"},
            history=stack_scores(evaluation.found).activation,
            steps=evaluation.steps,
            tail=stack_scores(context.tail.found).activation,
            data_seeds=[task.data_seed for task in population.tasks],
            seeds=population.seeds,
        )
        write_history(folder, _history(context, cell))
        write_results(folder, _results(context, cell, evaluator.num_modules, scores))


def _results(
    context: TrainerContext, cell: Cell, num_modules: Mapping[str, int], scores: Mapping[str, Scores]
) -> pd.DataFrame:
    """Return one row per member, checkpoint, measure, condition and place. `num_modules` is by place; rows
    without a place get the largest."""
    members, seconds = len(cell.members), sum(context.evaluation.seconds) + context.seconds
    timed = members * context.steps / seconds
    speed = {"seconds": seconds / members, "members_times_steps_per_second": timed}
    clock = {(name, IID, ""): np.full(members, value) for name, value in speed.items()}
    rows = [
        (*member, checkpoint, *name, value)
        for checkpoint, one in scores.items()
        for name, values in {**one.rows, **clock}.items()
        for member, value in zip(cell.members, values, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["data_seed", "seed", "checkpoint", *MEASURED])
    modules = {"": max(num_modules.values(), default=1), **num_modules}
    parameters = parameters_of_member(context.model)
    sizes = {"num_modules": frame["place"].map(modules), "num_parameters": parameters}
    return frame.assign(**cell.columns, **sizes, steps=context.steps)


def _history(context: TrainerContext, cell: Cell) -> pd.DataFrame:
    """Return one row per member, evaluation and measure; "diverged" has the exact step of a divergence."""
    evaluation = context.evaluation
    rows = [
        (step, *member, *name, value)
        for name in evaluation.found[0].rows
        for step, scores in zip(evaluation.steps, evaluation.found, strict=True)
        for member, value in zip(cell.members, scores.rows[name], strict=True)
    ]
    lost = zip(context.diverged_at, cell.members, strict=True)
    rows += [(int(step), *member, DIVERGED, IID, "", 1.0) for step, member in lost if step]
    return pd.DataFrame(rows, columns=["step", "data_seed", "seed", *MEASURED])


def run_name(cell: Cell, folder: str) -> str:
    """Return TensorBoard's name of the cell in a folder, at most 45 characters. Differences are first,
    because TensorBoard cuts off the end."""
    options = map(str, {**cell.router, **cell.model, **cell.trainer}.values())
    words = [cell.variant, *options, f"r{cell.task.num_rules}", f"e{cell.width}", cell.task.kind]
    return f"{UNSAFE.sub('_', '_'.join(words))[:36]}-{folder.rpartition('-')[2]}"


def _settings(cell: Cell) -> dict[str, Any]:
    """Return the settings by which TensorBoard's HParams compares cells; tuned numbers remain numbers."""
    spaces = {"router": cell.router, "model": cell.model, "trainer": cell.trainer}
    options = {f"{space}.{name}": value for space, some in spaces.items() for name, value in some.items()}
    return {
        **{name: str(value) for name, value in cell.columns.items() if value != ""},
        "learning_rate": cell.protocol.training.learning_rate,
        **{name: v if isinstance(v, bool | int | float) else str(v) for name, v in options.items()},
    }


def _save(model: keras.Model, folder: Path, name: str) -> None:
    """Write `NAME.keras`; of a registered model only the weights, which its function's model can load."""
    whole = isinstance(model, ModularModel)
    with atomic_path(folder / f"{name}.{'keras' if whole else 'weights.h5'}") as temporary:
        (model.save if whole else model.save_weights)(temporary)


def shape_of(cell: Cell, model: keras.Model) -> Hashable:
    """Return a key that is equal for cells whose models can replace each other; None for a user's model."""
    if not isinstance(model, ModularModel):
        return None
    config = cell.to_dict()
    config["cell"]["members"] = len(cell.members)
    for name in ("learning_rate", "steps", "evaluations"):
        del config["training"][name]
    # classes, because a name may be registered anew
    routers = tuple(type(router) for router in model.routers.values())
    return type(model), routers, type(cell.task.family), json.dumps(config, sort_keys=True)


def _reuse_key(cell: Cell, model: Any, data: str) -> Hashable:
    """Return a key that is equal for cells that can share a model; None if this model cannot be shared."""
    trainer, shape = cell.task.family.variant(cell.variant).trainer, shape_of(cell, model)
    if trainer != TRAINER and not getattr(resolve(trainer), "reusable", False):  # it may freeze weights
        return None
    if shape is None or keras.backend.backend() != "tensorflow":
        return None
    alone = model.distribute_strategy.num_replicas_in_sync == 1
    return (shape, data, kernels(), model.compiled_by_xla) if alone else None
