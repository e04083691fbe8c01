"""Trains, evaluates and writes one cell: what `launch/run.py` and every study are made of."""

import contextlib
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from modtf.cell import Cell
from modtf.checks import check_path, check_type
from modtf.engines.lock import held
from modtf.engines.members_in_turn import check_source, make_member, recorded_source, run_members
from modtf.engines.state import finish, state_of
from modtf.engines.train_and_write import train_and_write
from modtf.evaluation.evaluator import Evaluator
from modtf.files import check_writable, remove_unfinished, write_text
from modtf.models.base import ModularModel
from modtf.models.build import build_cell, trains_alone
from modtf.models.kernels.by_device import kernels
from modtf.population import Population
from modtf.results.schema import CONFIG
from modtf.training.provenance import provenance
from modtf.training.requirements import check_cell
from modtf.training.trainer import trainer_of
from modtf.version import __version__

KEPT = 8  # models: the variants of a comparison, and as many again
LARGEST = 1 << 22  # weights; tracing is nothing beside the training of a larger model

_kept: OrderedDict[Hashable, tuple[keras.Model, Evaluator]] = OrderedDict()


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
        strategy: what `choose_strategy` gives: a `tf.distribute.Strategy`, names of devices, or None for the
            default device.
        data: where it is made, see `modtf.train`; not part of the cell, as its numbers are the same but for
            their last bits.
        verbose: whether to show a progress bar.
        callbacks: more Keras callbacks, see `modtf.train`.

    Returns:
        The cell's folder: `config.json`, `results.csv`, `history.csv`, `activation.npz`, `last.keras`,
        `best.keras`, `tensorboard/`, and written last `manifest.json`, with checksums of the others: with it
        the cell is finished. A registered model, and some architectures, have no members axis: their members
        train one after the other, each in a folder `members/task0_seed0` with all of these but the manifest,
        of registered models the weights, `last.weights.h5` and `best.weights.h5`.

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
        check_source(cell, out)
        return Path(out, cell.folder)
    check_writable(out)
    train = prepare(cell, out, strategy=strategy, data=data, verbose=verbose, callbacks=callbacks)
    with held(out, cell.folder):
        if state_of(cell, out).name != "finished":  # by another process, just now
            finish(cell, out, train)
    return Path(out, cell.folder)


def prepare(
    cell: Cell, out: str | Path, strategy: Any = None, data: str = "auto", **how: Any
) -> Callable[[], None]:
    """Builds a cell's model and writes nothing yet; what it returns trains, and writes all but the manifest.

    Arguments and errors are those of `run_cell`.
    """
    check_source(cell, out)
    check_cell(cell)
    folder, in_turn = Path(out, cell.folder), trains_alone(cell)
    devices = strategy if isinstance(strategy, tuple) else ()
    how |= {"data": data, "devices": devices}
    scope = contextlib.nullcontext if strategy is None or devices else strategy.scope
    with scope():
        model = _model(cell)

    def run(part: Cell, population: Population, model: keras.Model, folder: Path) -> None:
        with lend(part, population, model, data) as lent:
            train_and_write(part, population, *lent, folder, **how)

    def train() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)
        made_with = provenance(cell.protocol.training.precision)
        record = {**cell.to_dict(), "version": __version__, **recorded_source(cell), "provenance": made_with}
        write_text(folder / CONFIG, json.dumps(record, indent=1))
        with scope():
            if in_turn:
                run_members(cell, folder, run)
            else:
                run(cell, cell.population, model, folder)

    return train


def check_builds(cell: Cell) -> None:
    """Raises `ValueError` where a cell's model cannot be built, or returns something else."""
    _model(replace(cell, members=cell.members[:1]))


def _model(cell: Cell) -> keras.Model:
    """Of all members, or of the first of those that train in turn; checks a trainer's options, too."""
    trainer_of(cell)
    if trains_alone(cell):
        return make_member(cell, cell.population.alone(0))
    return build_cell(cell, cell.population)


@contextlib.contextmanager
def lend(
    cell: Cell, population: Population, model: keras.Model, data: str
) -> Iterator[tuple[keras.Model, Evaluator]]:
    """A model to train in place of a new one: one that was trained before, with the new one's weights; and
    what measures it.

    Tracing, which is most of what a short training costs, then need not be done anew; and what TensorFlow
    keeps of every traced program does not pile up over many cells. Cells that differ in their members, the
    learning rate or the number of steps share one.
    """
    key = _shape(cell, model, data)
    if key in _kept:
        kept, evaluator = _kept.pop(key)
        kept.become(model)
        lent = kept, evaluator.of(population)
    else:
        lent = model, Evaluator(model, population, cell.protocol.evaluation, data=data)
    yield lent
    if key is not None and sum(math.prod(variable.shape) for variable in model.variables) <= LARGEST:
        _kept[key] = lent  # only now: one that was interrupted is in no known state
        while len(_kept) > KEPT:
            _kept.popitem(last=False)


def _shape(cell: Cell, model: keras.Model, data: str) -> Hashable:
    """What cells that can share a model have in common; None if this one's cannot be shared."""
    if not isinstance(model, ModularModel) or keras.backend.backend() != "tensorflow":
        return None
    if cell.task.family.variant(cell.variant).trainer is not None:  # who knows what it leaves frozen
        return None
    if model.distribute_strategy.num_replicas_in_sync > 1:
        return None
    config = cell.to_dict()
    config["cell"]["members"] = len(cell.members)
    for name in ("learning_rate", "steps", "evaluations"):
        del config["training"][name]
    # the classes: a name may have been registered anew
    routers = tuple(type(router) for router in model.routers.values())
    return type(model), routers, data, kernels(), json.dumps(config, sort_keys=True)
