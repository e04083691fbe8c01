"""Trains, evaluates and writes one cell, for `launch/run.py` and every study.

A model without a members axis trains its members one after the other, each like a cell of its own.
"""

import contextlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from modtf.base.checks import check_choice, check_path, check_type
from modtf.base.files import check_writable, remove_unfinished, write_text
from modtf.engines.state import (
    PATIENCE,
    Report,
    check_identity,
    check_order,
    finishing,
    locked,
    recorded_source,
    state_of,
    write_config,
)
from modtf.engines.train_cell import shape_of, train_cell
from modtf.evaluation.outputs import check_conditions, find_outputs
from modtf.evaluation.programs import with_xla
from modtf.models.architectures.sizes import check_size
from modtf.models.base import ModularModel
from modtf.models.build import build_cell, trains_alone
from modtf.models.own import MODELS, explained
from modtf.results import schema
from modtf.results.cells import read_config
from modtf.tasks.cell import Cell
from modtf.tasks.population import Population
from modtf.tasks.protocol import PLACES
from modtf.training import checkpoint_file
from modtf.training.fit import check_callbacks
from modtf.training.machine import provenance
from modtf.training.strategy import check_strategy, name_of
from modtf.training.trainer import trainer_of
from modtf.training.xla import is_too_short_for_xla

MEMBERS = "members"  # in a cell's folder, holds a folder for every member
_tried: set[Hashable] = set()  # shapes that passed the checks of `make_member`: keys, no kept objects


def run_cell(
    cell: Cell,
    out: str | Path,
    *,
    strategy: Any = None,
    data: str = "auto",
    verbose: bool = True,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    wait: bool = False,
) -> Path:
    """Run a cell, or finish a killed one; return at once if it is finished.

    Args:
        cell: the cell to run.
        out: the folder of the study, which holds a folder for the cell.
        strategy: a result of `choose_strategy`: a `tf.distribute.Strategy`, names of devices, or None for the
            default device. Members that train one after the other use one device in place of several names.
        data: where the data are made, see `modtf.train`; it changes only the last bits of the numbers.
        verbose: whether to show a progress bar.
        callbacks: more Keras callbacks, see `modtf.train`.
        wait: whether to wait for another process that works on the cell; by default that is an error, which
            names the process.

    Returns:
        The cell's folder: `config.json`, `results.csv`, `history.csv`, `activation.npz`, `last.keras`,
        `best.keras`, and `manifest.json` with the checksums of the others. The manifest is written last and
        marks the cell as finished. Logs for TensorBoard are in `tensorboard/` of `out`. Registered models and
        some architectures have no members axis. Their members train one after the other, each in a folder
        `members/task0_seed0` with all of these; a registered model leaves its weights, `last.weights.h5` and
        `best.weights.h5`.

    Raises:
        ValueError: if the folder cannot be written, or another process works on the cell; if a variant or
            option is unknown, or the width is too small for the modules; if the cell cannot fit into
            memory, or a registered model fails.

    Example:
        >>> folder = modtf.run_cell(Cell(Task(), 32, "modular", ((0, 0),)), "runs/first")
    """
    check_type("cell", cell, Cell)
    check_path("out", out)
    check_choice("data", data, PLACES)
    check_strategy(strategy)
    check_callbacks(callbacks)
    for name, value in (("verbose", verbose), ("wait", wait)):
        check_choice(name, value, (True, False))
    folder = Path(out, cell.folder)
    if state_of(cell, out).name == "finished":
        return folder
    check_writable(out)
    check_order(cell, out)
    check_size(cell)
    if isinstance(strategy, tuple) and trains_alone(cell):
        print(f"{cell.label}: one device is used, because its members train one after the other.")
        strategy = None
    model = _model(cell, strategy)  # an invalid model fails before anything is written
    with locked(out, cell.folder, -1 if wait else PATIENCE) as report:
        state = state_of(cell, out)  # another process may have run it
        if state.name != "finished":
            with finishing(cell, out, state):
                _train(cell, model, folder, report, strategy, callbacks, data=data, verbose=verbose)
    return folder


def train_and_report(cell: Cell, out: Path, report: Report) -> None:
    """Train a cell of a study, whose lock is held, and report its steps."""
    check_size(cell)
    _train(cell, _model(cell), out / cell.folder, report, verbose=False)


def _train(
    cell: Cell,
    model: keras.Model,
    folder: Path,
    report: Report,
    strategy: Any = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **how: Any,
) -> None:
    """Train a cell whose lock is held, after removing what a killed process left in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_unfinished(folder)
    made_with = {**provenance(cell.protocol.training.precision), "strategy": name_of(strategy)}
    made_with["xla"] = "on" if with_xla(model, True) else "off"
    write_config(cell, folder, provenance=made_with)
    train, turns = (train_in_turn, len(cell.members)) if trains_alone(cell) else (train_cell, 1)
    callbacks = [_Reporting(cell, folder, report, turns), *callbacks]
    devices = strategy if isinstance(strategy, tuple) else ()
    with _scope(strategy):
        train(cell, model, folder, devices=devices, callbacks=callbacks, **how)


class _Reporting(keras.callbacks.Callback):
    """Reports the finished steps, on average over members that train in `turns`."""

    def __init__(self, cell: Cell, folder: Path, report: Report, turns: int):
        super().__init__()
        self.steps, self.report, self.turns = cell.protocol.training.steps, report, turns
        self.members = folder / MEMBERS

    def on_train_begin(self, logs=None):
        self.turn = len([*self.members.glob(f"*/{schema.MANIFEST}")])  # the members that have finished

    def on_train_batch_end(self, batch, logs=None):
        self.report((self.turn * self.steps + self.begun + batch + 1) // self.turns)

    def on_epoch_begin(self, epoch, logs=None):
        self.begun = epoch * self.params["steps"]


def check_builds(cell: Cell) -> None:
    """Raise `ValueError` if a cell's model cannot be built, or lacks a required output.

    The model is built for two members, which a router must not mix.
    """
    model = _model(replace(cell, members=cell.members[:2]))
    if isinstance(model, ModularModel):
        model.check_routers()


def _model(cell: Cell, strategy: Any = None) -> keras.Model:
    """Build the model of all members, or of the first if members train alone; check that the trainer of the
    cell accepts its options and the model."""
    trainer, options = trainer_of(cell)
    with _scope(strategy):
        if trains_alone(cell):
            model = make_member(cell, cell.population.single_member(0))
        else:
            model = build_cell(cell, cell.population)
            if strategy is None:
                _without_xla(cell, model)
    if check := getattr(trainer, "check_model", None):
        check(model, cell.task, **options)
    return model


def _without_xla(cell: Cell, model: Any) -> None:
    """Keep XLA from compiling a model on a CPU if its training is too short to repay that."""
    if is_too_short_for_xla(cell):
        model.compiled_by_xla = False


def _scope(strategy: Any) -> contextlib.AbstractContextManager:
    return contextlib.nullcontext() if strategy is None or isinstance(strategy, tuple) else strategy.scope()


def make_member(cell: Cell, population: Population) -> keras.Model:
    """Return the model of one member, tried on a few examples under every condition.

    Raise `ValueError` if it fails, lacks a required output, or cannot be saved. Members of an architecture
    differ in values only, so one is tried for all.
    """
    model = build_cell(cell, population)
    _without_xla(cell, model)
    key = shape_of(replace(cell, members=cell.members[:1]), model)
    if key in _tried:
        return model
    try:
        find_outputs(model, population)
        check_conditions(model, population, cell.protocol.evaluation)
    except ValueError as error:
        raise ValueError(f"The model {cell.variant!r}: {error}") from error
    if key is not None:
        _tried.add(key)
    return model


def train_in_turn(cell: Cell, first: keras.Model, folder: Path, **how: Any) -> None:
    """Train the unfinished members one after the other, then write the cell's results from theirs.

    `first` is the first member's model.

    Raises:
        ValueError: if the model fails, or a member's folder belongs to another member.
    """
    parts: list[Path] = []
    for index, member in enumerate(cell.members):
        part = folder / MEMBERS / "task{}_seed{}".format(*member)
        one, population = replace(cell, members=(member,)), cell.population.single_member(index)
        if damage := schema.damage_of(part):
            if (part / schema.MANIFEST).exists():
                print(f"{part} is damaged: {damage}. It is trained again.")
            model = make_member(one, population) if index else first
            write_text(part / schema.CONFIG, json.dumps({**one.to_dict(), **recorded_source(one)}, indent=1))
            with explained(cell.variant, MODELS.get(cell.runs, type(model))):
                train_cell(one, model, part, population, **how)
            schema.write_manifest(part, checkpoint_file.checkpoints(part))
        check_identity(one, part, read_config(part))
        if parts:  # the last stay until the manifest: results without either count as damaged
            checkpoint_file.remove_checkpoints(parts[-1])
        parts.append(part)
    arrays = [schema.read_activations(part) for part in parts]
    of_evaluations = ("history", schema.TAIL)  # their arrays have an axis before that of members
    joined = {
        name: np.concatenate([array[name] for array in arrays], axis=int(name.startswith(of_evaluations)))
        for name in arrays[0]
    }
    schema.save_activations(folder, {**joined, "steps": arrays[0]["steps"]})
    for name, write in ((schema.HISTORY, schema.write_history), (schema.RESULTS, schema.write_results)):
        write(folder, pd.concat([schema.read_values(part / name) for part in parts], ignore_index=True))
