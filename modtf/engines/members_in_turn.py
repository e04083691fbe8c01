"""A cell without members axis: its members train one after the other, each as a cell of its own would."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from modtf.cell import Cell
from modtf.engines.state import check_identity, recorded_source
from modtf.engines.train_and_write import train_and_write
from modtf.evaluation.outputs import check_conditions, find_outputs
from modtf.files import write_text
from modtf.models.build import build_cell
from modtf.models.own import MODELS, explained
from modtf.population import Population
from modtf.results import schema
from modtf.results.cells import read_config
from modtf.results.manifest import MANIFEST, damage_of, write_manifest
from modtf.results.schema import CONFIG, HISTORY, RESULTS, read_activations, read_values
from modtf.training import archive

MEMBERS = "members"  # of a cell's folder: a folder for every member


def make_member(cell: Cell, population: Population) -> keras.Model:
    """The model of one member, tried on a few examples under every condition.

    Raises:
        ValueError: where it fails, returns something else than it must, or cannot be saved.
    """
    model = build_cell(cell, population)
    try:
        find_outputs(model, population)
        check_conditions(model, population, cell.protocol.evaluation)
    except ValueError as error:
        raise ValueError(f"The model {cell.variant!r}: {error}") from error
    return model


def run_members(cell: Cell, folder: Path, **how: Any) -> None:
    """Runs the members that are not finished, then writes the cell's results from theirs.

    Raises:
        ValueError: where the model fails, in one line, or a member's folder is another's.
    """
    parts = []
    for index, member in enumerate(cell.members):
        part = folder / MEMBERS / "task{}_seed{}".format(*member)
        one, population = replace(cell, members=(member,)), cell.population.alone(index)
        if damage := damage_of(part):
            if (part / MANIFEST).exists():
                print(f"{part} is damaged: {damage}. It is trained again.")
            model = make_member(one, population)
            write_text(part / CONFIG, json.dumps({**one.to_dict(), **recorded_source(one)}, indent=1))
            with explained(cell.variant, MODELS.get(cell.runs, type(model))):
                train_and_write(one, population, model, part, **how)
            write_manifest(part, archive.checkpoints(part))
        check_identity(one, part, read_config(part))
        archive.remove_checkpoints(part)
        parts.append(part)
    arrays = [read_activations(part) for part in parts]
    of_evaluations = ("history", schema.TAIL)  # an axis before that of members
    joined = {
        name: np.concatenate([found[name] for found in arrays], axis=int(name.startswith(of_evaluations)))
        for name in arrays[0]
    }
    schema.save_activations(folder, {**joined, "steps": arrays[0]["steps"]})
    for name, write in ((HISTORY, schema.write_history), (RESULTS, schema.write_results)):
        write(folder, pd.concat([read_values(part / name) for part in parts], ignore_index=True))
