"""Results of a study: written by training, read as one tidy table, summarised, compared and ranked."""

from modtf.results.activations import Activations, load_activations
from modtf.results.cells import CellFolder, find_cells
from modtf.results.load import load_history, load_results
from modtf.analysis.missing import find_missing
from modtf.analysis.paired import PAIRS, compare_pairs
from modtf.analysis.performance import performance_rows
from modtf.analysis.random_baseline import random_baseline
from modtf.analysis.ranking import rank, votes
from modtf.analysis.resampling import Bootstrap
from modtf.results.schema import (
    CELL,
    COLUMNS,
    CONDITION,
    MEMBER,
    TASK,
    VARIANTS,
    write_activations,
    write_history,
    write_results,
)
from modtf.analysis.study import Study
from modtf.analysis.summary import summarise

__all__ = [
    "CELL",
    "COLUMNS",
    "CONDITION",
    "MEMBER",
    "PAIRS",
    "TASK",
    "VARIANTS",
    "Activations",
    "Bootstrap",
    "CellFolder",
    "Study",
    "compare_pairs",
    "find_cells",
    "find_missing",
    "load_activations",
    "load_history",
    "load_results",
    "performance_rows",
    "random_baseline",
    "rank",
    "summarise",
    "votes",
    "write_activations",
    "write_history",
    "write_results",
]
