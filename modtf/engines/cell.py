"""Trains, evaluates and writes one cell: what `launch/run.py` and every study are made of."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from modtf.cell import Cell
from modtf.checks import check_path, check_type
from modtf.engines.lock import held
from modtf.engines.members_in_turn import make_member, run_members
from modtf.engines.state import finish, state_of, write_config
from modtf.engines.train_and_write import train_and_write
from modtf.files import check_writable, remove_unfinished
from modtf.models.base import ModularModel
from modtf.models.build import build_cell, trains_alone
from modtf.training.provenance import provenance
from modtf.training.requirements import check_cell
from modtf.training.strategy import name_of
from modtf.training.trainer import trainer_of


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
    """Runs a cell, or finishes one that was killed, or finds it finished.

    Args:
        cell: what to run.
        out: the folder of the study; the cell has a folder of its own in it.
        strategy: what `choose_strategy` gives: a `tf.distribute.Strategy`, names of devices, or None for the
            default device.
        data: where it is made, see `modtf.train`; not part of the cell, as its numbers are the same but for
            their last bits.
        verbose: whether to show a progress bar.
        callbacks: more Keras callbacks, see `modtf.train`.
        wait: for another process that works on the cell; by default that is an error, which names it.

    Returns:
        The cell's folder: `config.json`, `results.csv`, `history.csv`, `activation.npz`, `last.keras`,
        `best.keras`, `tensorboard/`, and written last `manifest.json`, with checksums of the others: with it
        the cell is finished. A registered model, and some architectures, have no members axis: their members
        train one after the other, each in a folder `members/task0_seed0` with all of these, of registered
        models the weights, `last.weights.h5` and `best.weights.h5`.

    Raises:
        ValueError: on a folder that cannot be written, a variant or option that there is not, a width too
            small for the modules, a cell that cannot fit into memory, a registered model that fails, or a
            cell that another process works on.

    Example:
        >>> folder = modtf.run_cell(Cell(Task(), 32, "modular", ((0, 0),)), "runs/first")
    """
    check_type("cell", cell, Cell)
    check_path("out", out)
    if state_of(cell, out).name == "finished":
        return Path(out, cell.folder)
    check_writable(out)
    train = prepare(cell, out, strategy=strategy, data=data, verbose=verbose, callbacks=callbacks)
    with held(out, cell.folder, wait=wait):
        if state_of(cell, out).name != "finished":  # by another process, just now
            finish(cell, out, train)
    return Path(out, cell.folder)


def prepare(
    cell: Cell, out: str | Path, strategy: Any = None, data: str = "auto", **how: Any
) -> Callable[[], None]:
    """Builds a cell's model and writes nothing yet; what it returns trains, and writes all but the manifest.

    Arguments and errors are those of `run_cell`.
    """
    check_cell(cell)
    folder, in_turn = Path(out, cell.folder), trains_alone(cell)
    devices = strategy if isinstance(strategy, tuple) else ()
    how |= {"data": data, "devices": devices}
    scope = contextlib.nullcontext if strategy is None or devices else strategy.scope
    with scope():
        model = _model(cell)

    def train() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)
        made_with = {**provenance(cell.protocol.training.precision), "strategy": name_of(strategy)}
        write_config(cell, folder, provenance=made_with)
        with scope():
            if in_turn:
                run_members(cell, folder, **how)
            else:
                train_and_write(cell, cell.population, model, folder, **how)

    return train


def check_builds(cell: Cell) -> None:
    """Raises `ValueError` where a cell's model cannot be built, or returns something else; of two members,
    which a router must not mix."""
    model = _model(replace(cell, members=cell.members[:2]))
    if isinstance(model, ModularModel):
        model.check_routers()


def _model(cell: Cell) -> keras.Model:
    """Of all members, or of the first of those that train in turn; checks a trainer's options, too."""
    trainer_of(cell)
    if trains_alone(cell):
        return make_member(cell, cell.population.alone(0))
    return build_cell(cell, cell.population)
