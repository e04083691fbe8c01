"""Trains, evaluates and writes one cell: what `launch/run.py` and every study are made of."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from modtf.cell import Cell
from modtf.checks import check_path, check_type
from modtf.engines.alone import make_member, run_members, save_weights
from modtf.engines.reuse import lend
from modtf.engines.source import check_source, recorded_source
from modtf.engines.tables import final_scores, history_table, results_table
from modtf.evaluation.evaluator import Evaluator
from modtf.files import atomic_path, check_writable, remove_unfinished, write_text
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
from modtf.training import archive
from modtf.training.callbacks.evaluate import BestWeights, EvaluateCallback, TailCallback
from modtf.training.callbacks.tensorboard import TensorBoardWriter
from modtf.training.provenance import provenance
from modtf.training.requirements import check_cell
from modtf.training.strategy import MemberDevices
from modtf.training.train import train
from modtf.version import __version__


def run_cell(
    cell: Cell,
    out: str | Path,
    *,
    strategy: Any = None,
    data: str = "auto",
    verbose: bool = True,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> Path:
    """Runs a cell, or finishes one that was killed, or finds it finished.

    Args:
        cell: what to run.
        out: the folder of the study; the cell has a folder of its own in it.
        strategy: what `choose_strategy` gives: a `tf.distribute.Strategy`, `MemberDevices`, or None for the
            default device.
        data: where it is made, see `modtf.train`; not part of the cell, as its numbers are the same but for
            their last bits.
        verbose: whether to show a progress bar.
        callbacks: more Keras callbacks, see `modtf.train`.

    Returns:
        The cell's folder: `config.json`, `results.csv` (written last), `history.csv`, `activation.npz`,
        `last.keras`, `best.keras`, `tensorboard/`. A registered model has no members axis: its members train
        one after the other, each in a folder `members/task0_seed0` with all of these, of models the weights,
        `last.weights.h5` and `best.weights.h5`.

    Raises:
        ValueError: on a folder that cannot be written, a variant or option that there is not, a width too
            small for the modules, a cell that cannot fit into memory, or a registered model that fails.

    Example:
        >>> folder = modtf.run_cell(Cell(Task(), 32, "modular", ((0, 0),)), "runs/first")
    """
    check_type("cell", cell, Cell)
    check_path("out", out)
    folder, alone = Path(out, cell.folder), trains_alone(cell)
    check_source(cell, out)
    if (folder / RESULTS).exists():
        return folder
    check_writable(out)
    check_cell(cell)
    devices = strategy.devices if isinstance(strategy, MemberDevices) else ()

    def run(part: Cell, population: Population, model: keras.Model, folder: Path) -> None:
        with lend(part, population, model, data) as lent:
            _train_and_measure(part, population, *lent, folder, data, devices, verbose, callbacks)

    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = make_member(cell, cell.population.alone(0)) if alone else build_cell(cell, cell.population)
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)
        made_with = provenance(cell.protocol.training.precision)
        record = {**cell.to_dict(), "version": __version__, **recorded_source(cell), "provenance": made_with}
        write_text(folder / CONFIG, json.dumps(record, indent=1))
        if alone:
            run_members(cell, folder, run)
        else:
            run(cell, cell.population, model, folder)
    return folder


def check_builds(cell: Cell) -> None:
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
    evaluator: Evaluator,
    folder: Path,
    data: str,
    devices: Sequence[str],
    verbose: bool,
    callbacks: Sequence[keras.callbacks.Callback],
) -> None:
    training, sizes = cell.protocol.training, cell.protocol.evaluation
    evaluation = EvaluateCallback(evaluator.on(sizes.smaller(TRAINING_FACTOR), "validation"))
    tail = TailCallback(evaluator.on(sizes.smaller(TRAINING_FACTOR, sizes.conditions), "test"))
    best = BestWeights(evaluation)
    board = TensorBoardWriter(folder / "tensorboard", _settings(cell), evaluation)
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
        data=data,
        devices=devices,
        evaluation=evaluation,
        checkpoint=checkpoint,
        callbacks=[tail, best, board, *callbacks],
        verbose=verbose,
        label=cell.label if population.has_axis else f"{cell.label} {folder.name}",
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
    board.final(training.steps, final_scores(scores["last"]))
    write_activations(
        folder,
        **{name: found.activation for name, found in scores.items() if name != "tail"},
        history=np.stack(evaluation.activations),
        steps=evaluation.steps,
        data_seeds=[task.data_seed for task in population.tasks],
        seeds=population.seeds,
    )
    write_history(folder, history_table(cell, evaluation, np.asarray(model.optimizer.diverged_at)))
    sizes_of_model = evaluator.num_modules, parameters_of_member(model)
    write_results(folder, results_table(cell, *sizes_of_model, scores, sum(evaluation.seconds)))
    archive.remove(checkpoint)


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
    if not isinstance(model, ModularModel):
        save_weights(model, folder, name)
        return
    with atomic_path(folder / f"{name}.keras") as temporary:
        model.save(temporary)
