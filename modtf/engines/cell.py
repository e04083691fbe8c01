"""Trains, evaluates and writes one cell: what `launch/run.py` and every study are made of."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from modtf.cell import Cell
from modtf.engines.alone import make_member, run_members, save_weights
from modtf.engines.source import check_source, recorded_source
from modtf.engines.tables import final_scores, history_table, results_table
from modtf.evaluation.evaluator import Evaluator
from modtf.files import atomic_path, write_text
from modtf.models.base import ModularModel
from modtf.models.build import build_cell, parameters_of_member, trains_alone
from modtf.population import Population
from modtf.protocol import TRAINING_FACTOR
from modtf.results.schema import (
    CONFIG,
    RESULTS,
    write_activations,
    write_history,
    write_results,
)
from modtf.training.callbacks.best import BestWeights
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.callbacks.tail import TailCallback
from modtf.training.callbacks.tensorboard import TensorBoardWriter
from modtf.training.fit import train
from modtf.version import __version__


def run_cell(
    cell: Cell,
    out: str | Path,
    *,
    strategy: Any = None,
    verbose: bool = True,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> Path:
    """Runs a cell, or finishes one that was killed, or finds it finished.

    Args:
        cell: what to run.
        out: the folder of the study; the cell has a folder of its own in it.
        strategy: a `tf.distribute.Strategy`, or None for the default device.
        verbose: whether to show a progress bar.
        callbacks: more Keras callbacks, see `modtf.train`.

    Returns:
        The cell's folder: `config.json`, `results.csv` (written last), `history.csv`, `activation.npz`,
        `last.keras`, `best.keras`, `tensorboard/`. A registered model has no members axis: its members train
        one after the other, each in a folder `members/task0_seed0` with all of these, of models the weights,
        `last.weights.h5` and `best.weights.h5`.

    Raises:
        ValueError: on a variant or option that there is not, a width too small for the modules, or a
            registered model that fails.

    Example:
        >>> folder = modtf.run_cell(Cell(Task(), 32, "modular", ((0, 0),)), "runs/first")
    """
    folder, alone = Path(out, cell.folder), trains_alone(cell)
    check_source(cell, out)
    if (folder / RESULTS).exists():
        return folder

    def run(part: Cell, population: Population, model: keras.Model, folder: Path) -> None:
        _train_and_measure(part, population, model, folder, verbose, callbacks)

    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = make_member(cell, cell.population.alone(0)) if alone else build_cell(cell, cell.population)
        folder.mkdir(parents=True, exist_ok=True)
        config = {**cell.to_dict(), "version": __version__, **recorded_source(cell)}
        write_text(folder / CONFIG, json.dumps(config, indent=1))
        if alone:
            run_members(cell, folder, run)
        else:
            run(cell, cell.population, model, folder)
    return folder


def check_cell(cell: Cell) -> None:
    """Raises `ValueError` where a cell's model cannot be built, or returns something else."""
    one = cell.population.alone(0)
    if trains_alone(cell):
        make_member(cell, one)
    else:
        build_cell(cell, one)


def _train_and_measure(
    cell: Cell,
    population: Population,
    model: keras.Model,
    folder: Path,
    verbose: bool,
    callbacks: Sequence[keras.callbacks.Callback],
) -> None:
    training, sizes = cell.protocol.training, cell.protocol.evaluation
    evaluator = Evaluator(model, population, sizes)
    evaluation = EvaluateCallback(evaluator.on(sizes.smaller(TRAINING_FACTOR), "validation"))
    tail = TailCallback(evaluator.on(sizes.smaller(TRAINING_FACTOR, sizes.conditions), "test"))
    best = BestWeights(evaluation)
    settings = {name: str(value) for name, value in cell.columns.items() if value != ""}
    board = TensorBoardWriter(folder / "tensorboard", settings, evaluation)
    checkpoint = folder / "checkpoint.npz"
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
        checkpoint=checkpoint,
        callbacks=[tail, best, board, *callbacks],
        verbose=verbose,
        label=cell.label if population.has_axis else f"{cell.label} {folder.name}",
    )
    scores = {"tail": tail.scores()}
    for name, weights in (("last", None), ("best", best.weights)):
        if weights is not None:
            for variable, value in zip(model.weights, weights, strict=True):
                variable.assign(value)
        _save(model, folder, name)
        scores[name] = evaluator.run()
    board.final(training.steps, final_scores(scores["last"]))
    write_activations(
        folder,
        **{name: found.activation for name, found in scores.items() if name != "tail"},
        history=np.stack(evaluation.activations),
        steps=evaluation.steps,
        data_seeds=[task.data_seed for task in population.tasks],
        seeds=population.seeds,
    )
    write_history(folder, history_table(cell, evaluation))
    sizes_of_model = evaluator.num_modules, parameters_of_member(model)
    write_results(folder, results_table(cell, *sizes_of_model, scores, sum(evaluation.seconds)))
    checkpoint.unlink(missing_ok=True)


def _save(model: keras.Model, folder: Path, name: str) -> None:
    if not isinstance(model, ModularModel):
        save_weights(model, folder, name)
        return
    with atomic_path(folder / f"{name}.keras") as temporary:
        model.save(temporary)
