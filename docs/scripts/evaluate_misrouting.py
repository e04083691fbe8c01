"""Evaluate models of the study `misrouting` under other routings than they were trained with.

    python docs/scripts/evaluate_misrouting.py studies/misrouting docs/study/misrouting_crossed.csv.gz
    python docs/scripts/evaluate_misrouting.py studies/cross docs/study/languages_crossed.csv.gz

A model trained with sampled routing is evaluated with the matrix that was sampled from, and with perfect
routing. The model trained with perfect routing is evaluated with every other routing of its task type. In
languages the oracle and the models of `languages.py:cross` are evaluated under each other's routing. The
script needs the study's folder for the weights. It skips cells that the table already holds.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from sources import study_file
from tqdm import tqdm

import modtf
from modtf.base.files import write_table
from modtf.models.build import build_cell
from modtf.results.cells import find_cells
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES

TIMED = (0.1, 0.875)  # the wrong routings of the study `timing`
RULES: Mapping[str, Any] = {"matrix": "spread", "amount": 0.0, "hard": False}


def asked(cell: Cell) -> list[dict[str, Any]]:
    """Return the routings under which the model of a cell is evaluated: options of `clamped`.

    They are those of the study `misrouting`, whatever study the cell belongs to."""
    if cell.task.arch == "languages" and cell.variant in ("clamped", "gt_modular"):
        wrong = study_file("languages").WRONG.values()
        return [{**RULES}, *({**RULES, **options} for _, options in wrong)]
    if cell.variant != "clamped":
        return []
    trained = {**RULES, **cell.router}
    if "until_step" in trained:  # wrong in a part of training, evaluated with perfect routing already
        never = trained["from_step"] == trained["until_step"]
        amounts = TIMED if never else [trained["amount"]]
        return [{"matrix": "spread", "amount": amount, "hard": True} for amount in amounts]
    if trained["hard"]:
        return [{**trained, "hard": False}, {**RULES}]
    if trained == RULES:
        same = (other for other in study_file("misrouting").misrouting() if other.task == cell.task)
        return [{**RULES, **other.router} for other in same]
    return []


def crossed(cell: Cell, folder: Path) -> pd.DataFrame:
    """Return a row for every routing, member, measure of performance and condition, at the last weights.

    Returns:
        cell, setting, matrix, amount and hard in training (trained_) and in evaluation (asked_), data_seed,
        seed, measure (with its condition: "loss", "loss_scale2", ...), value.
    """
    trained, rows = {**RULES, **cell.router}, []
    model = modtf.load_model(folder / "last.keras")
    few = {"tokens": 1000, "draws": 1, "tokens_per_draw": 1}  # only performance is needed
    conditions = (FAMILIES[cell.task.arch].headline,)
    sizes = replace(cell.protocol.evaluation, conditions=conditions, **few)
    for routing in asked(cell):
        other = build_cell(replace(cell, variant="clamped", router=routing), cell.population)
        for ours, theirs in zip(other.trainable_variables, model.trainable_variables, strict=True):
            ours.assign(theirs)
        found = modtf.evaluate(other, cell.population, evaluation=sizes)
        names = {
            f"{what}_{n}": v for what, o in (("trained", trained), ("asked", routing)) for n, v in o.items()
        }
        rows += [
            {"cell": cell.hash, "setting": cell.task.setting, **names, "data_seed": task, "seed": seed}
            | {"measure": measure, "value": value}
            for (task, seed), scores in zip(cell.members, found, strict=True)
            for measure, value in scores.items()
            if measure.partition("_")[0] in ("loss", "error")
        ]
    return pd.DataFrame(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("table", type=Path)
    given = parser.parse_args()
    tables = [pd.read_csv(given.table)] if given.table.exists() else []
    known = {name for table in tables for name in table["cell"]}
    for one in tqdm(find_cells(given.results), desc="cells"):
        if one.is_finished and one.definition.hash not in known and asked(one.definition):
            tables.append(crossed(one.definition, one.path))
            write_table(given.table, pd.concat(tables))
