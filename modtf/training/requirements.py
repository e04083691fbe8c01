"""Refuses a cell that certainly cannot fit into memory, without building it; no Keras is imported."""

from modtf.cell import Cell
from modtf.memory import cell_bytes, check_fits
from modtf.models.architectures.sizes import least_parameters
from modtf.models.own import MODELS


def check_cell(cell: Cell) -> None:
    """Raises `ValueError` where a cell cannot fit into the memory that there is."""
    architecture = cell.architecture or cell.task.family.architecture
    least = 0 if cell.runs in MODELS else least_parameters(architecture, cell.width)
    what = f"{cell.label} with {len(cell.members)} members"
    mend = "Take smaller batches, a smaller width, fewer rules or fewer members."
    check_fits(what, cell_bytes(cell, least), mend)
