"""Models that were trained in this process: a cell of the same shape goes on with what was traced for one."""

import contextlib
import json
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import NamedTuple

import keras

from modtf.cell import Cell
from modtf.evaluation.evaluator import Evaluator
from modtf.models.base import ModularModel
from modtf.models.kernels.by_device import kernels
from modtf.population import Population

KEPT = 8  # models: the variants of a comparison, and as many again
LARGEST = 1 << 22  # weights; tracing is nothing beside the training of a larger model

_kept: "OrderedDict[Hashable, Lent]" = OrderedDict()


class Lent(NamedTuple):
    """A model and what measures it."""

    model: keras.Model
    evaluator: Evaluator


@contextlib.contextmanager
def lend(cell: Cell, population: Population, model: keras.Model, data: str) -> Iterator[Lent]:
    """A model to train in place of a new one: one that was trained before, with the new one's weights.

    Tracing, which is most of what a short training costs, then need not be done anew; and what TensorFlow
    keeps of every traced program does not pile up over many cells.

    Args:
        cell: it and others that differ in their members, the learning rate or the number of steps share.
        population: the members that are trained.
        model: newly built for them.
        data: where it is made, see `modtf.train`.
    """
    key = _shape(cell, model, data)
    lent = _kept.pop(key, None)
    if lent is None:
        lent = Lent(model, Evaluator(model, population, cell.protocol.evaluation, data=data))
    else:
        lent.model.become(model)
        lent = Lent(lent.model, lent.evaluator.of(population))
    yield lent
    if key is not None and sum(math.prod(variable.shape) for variable in lent.model.variables) <= LARGEST:
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
