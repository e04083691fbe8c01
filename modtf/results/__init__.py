"""Results of cells on disk: their schema, finding them, reading them as one tidy table."""

from modtf.results.activations import Activations, load_activations
from modtf.results.cells import CellFolder, find_cells
from modtf.results.load import load_history, load_results, with_categories
from modtf.results.schema import (
    CELL,
    CHECKPOINTS,
    COLUMNS,
    HISTORY_COLUMNS,
    KIND,
    MEMBER,
    SCORE,
    VARIANTS,
    write_activations,
    write_history,
    write_results,
)

__all__ = [
    "CELL",
    "CHECKPOINTS",
    "COLUMNS",
    "HISTORY_COLUMNS",
    "KIND",
    "MEMBER",
    "SCORE",
    "VARIANTS",
    "Activations",
    "CellFolder",
    "find_cells",
    "load_activations",
    "load_history",
    "load_results",
    "with_categories",
    "write_activations",
    "write_history",
    "write_results",
]
