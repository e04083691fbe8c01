"""Results of a registered model, and the file that it stood in: the name alone does not say what it was."""

import json
from pathlib import Path
from typing import Any

from modtf.cell import Cell
from modtf.models.own import MODELS, source_of
from modtf.results.schema import CONFIG

SOURCE = "source"  # in the config: what the model's file said


def recorded_source(cell: Cell) -> dict[str, Any]:
    """What is recorded beside the cell; nothing for a model of modtf, whose version is."""
    return {SOURCE: source_of(cell.runs)} if cell.runs in MODELS else {}


def check_source(cell: Cell, out: str | Path) -> None:
    """Raises `ValueError` where the cell's folder in `out` is of a file that said something else."""
    path = Path(out, cell.folder, CONFIG)
    now = recorded_source(cell)
    if now and path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before.get(SOURCE) != now[SOURCE]:
            raise ValueError(
                f"{path.parent} holds results of a model {cell.variant!r} whose file has changed since. "
                "Register the new one under another name, choose another --out, or remove that folder."
            )
