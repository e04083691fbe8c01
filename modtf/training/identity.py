"""Whose a checkpoint is: what must be the same where a training is resumed."""

from dataclasses import asdict
from typing import Any

import keras

from modtf.models.base import ModularModel
from modtf.models.own import hash_of_source
from modtf.population import Population
from modtf.protocol import Training

#: what need not be the same, as arguments of `modtf.train`: where and how it runs, not what comes of it
MAY_DIFFER = ("data", "devices", "jit_compile", "steps_per_execution", "verbose", "label")


def identity_of(
    model: keras.Model, population: Population, training: Training, **more: Any
) -> dict[str, Any]:
    """What defines a training scientifically, JSON-able: data and seeds, model, and numbers of training.

    Args:
        model: one of modtf's is known by its architecture, variant, options, width and seeds; another by its
            name and what its class says, comments apart. Shapes of weights are compared besides.
        **more: what else tells it from others.
    """
    numbers = {name: value for name, value in asdict(training).items() if (name, value) != ("tail", 0)}
    if isinstance(model, ModularModel):
        known = {**model.get_config(), **_members(model.population), "architecture": type(model).__name__}
        del known["population"], known["name"]
    else:
        known = {"name": type(model).__qualname__, "source": hash_of_source(type(model))}
    return {**more, "data": _members(population), "model": known, "training": numbers}


def _members(population: Population) -> dict[str, Any]:
    return {"tasks": [task.name for task in population.tasks], "seeds": list(population.seeds)}
