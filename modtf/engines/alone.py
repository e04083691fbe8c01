"""A cell without members axis: its members train one after the other, each as a cell of its own would."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from modtf.cell import Cell
from modtf.evaluation.outputs import check_conditions, count_modules
from modtf.files import atomic_path
from modtf.models.build import build_cell
from modtf.models.own import MODELS, explained
from modtf.population import Population
from modtf.results.schema import (
    HISTORY,
    RESULTS,
    read_activations,
    read_values,
    save_activations,
    write_history,
    write_results,
)

MEMBERS = "members"  # of a cell's folder: a folder for every member

#: trains and writes one member: (its cell, its population, its model, its folder)
RunMember = Callable[[Cell, Population, keras.Model, Path], None]


def make_member(cell: Cell, population: Population) -> keras.Model:
    """The model of one member, tried on a few examples under every condition.

    Raises:
        ValueError: where it fails, returns something else than it must, or cannot be saved.
    """
    model = build_cell(cell, population)
    try:
        count_modules(model, population)
        check_conditions(model, population, cell.protocol.evaluation)
    except ValueError as error:
        raise ValueError(f"The model {cell.variant!r}: {error}") from error
    return model


def run_members(cell: Cell, folder: Path, run_member: RunMember) -> None:
    """Runs the members that are not finished, then writes the cell's results from theirs.

    Raises:
        ValueError: where the model fails, in one line.
    """
    parts = []
    for index, member in enumerate(cell.members):
        part = folder / MEMBERS / "task{}_seed{}".format(*member)
        if not (part / RESULTS).exists():
            one, population = replace(cell, members=(member,)), cell.population.alone(index)
            model = make_member(one, population)
            part.mkdir(parents=True, exist_ok=True)
            with explained(cell.variant, MODELS.get(cell.runs, type(model))):
                run_member(one, population, model, part)
        parts.append(part)
    arrays = [read_activations(part) for part in parts]
    joined = {
        name: np.concatenate([found[name] for found in arrays], axis=1 if name.startswith("history") else 0)
        for name in arrays[0]
    }
    save_activations(folder, {**joined, "steps": arrays[0]["steps"]})
    write_history(folder, _joined(parts, HISTORY))
    write_results(folder, _joined(parts, RESULTS))


def save_weights(model: keras.Model, folder: Path, name: str) -> None:
    """Writes `NAME.weights.h5`, which the model that the function makes again can load."""
    with atomic_path(folder / f"{name}.weights.h5") as temporary:
        model.save_weights(temporary)


def _joined(parts: list[Path], name: str) -> Any:
    return pd.concat([read_values(part / name) for part in parts], ignore_index=True)
