"""Reads the tables of many cells at once: they are parsed and checked together."""

import io
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.metrics import MEASURES
from modtf.results.cells import CellFolder
from modtf.results.check import ROUNDING, key_of, read_table
from modtf.results.schema import CELL, CHECKPOINTS, COLUMNS, HISTORY_COLUMNS, RESULTS, SCORE, read_values

Progress = Callable[[Sequence[CellFolder]], Iterable[CellFolder]]  # such as tqdm


def read_tables(
    cells: Sequence[CellFolder], name: str, progress: Progress = iter
) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return the rows of `results.csv` or `history.csv` of all cells, and the number of rows per cell.

    Texts are categories. The files are parsed as one and checked together, with the checks of `read_table`.
    If that finds a fault, or a file has another layout than training writes, each file is read alone, which
    names the faulty one.

    Raises:
        ValueError: as `read_table`.
    """
    found = _read_together(progress(cells), name)
    if found is not None and _are_right(cells, name, *found):
        return found
    tables = [read_table(cell.path, name, cell.definition) for cell in cells]
    columns = COLUMNS if name == RESULTS else HISTORY_COLUMNS
    texts = {column: "category" for column, kind in columns.items() if kind == "str"}
    whole = pd.concat(tables, ignore_index=True).astype(texts)
    return whole, np.array([len(table) for table in tables], np.intp)


def _read_together(cells: Iterable[CellFolder], name: str) -> tuple[pd.DataFrame, NDArray[np.intp]] | None:
    """Return the rows of all files and their numbers; None if they cannot be parsed as one."""
    columns = COLUMNS if name == RESULTS else HISTORY_COLUMNS
    header = ",".join(columns).encode() + b"\n"
    parts, numbers = [header], []
    try:
        for cell in cells:
            content = (cell.path / name).read_bytes()
            if not content.startswith(header) or not content.endswith(b"\n"):
                return None
            parts.append(content[len(header) :])
            numbers.append(parts[-1].count(b"\n"))
        text = io.StringIO(b"".join(parts).decode("utf-8"))
        frame = read_values(text, {c: "category" if kind == "str" else kind for c, kind in columns.items()})
    except (pd.errors.ParserError, pd.errors.EmptyDataError, OSError, ValueError):
        return None
    rows = np.array(numbers, np.intp)
    # a line break in a text, or a blank line, is not a row: rows could then not be assigned to cells
    return (frame, rows) if list(frame) == list(columns) and len(frame) == rows.sum() else None


def _are_right(cells: Sequence[CellFolder], name: str, frame: pd.DataFrame, rows: NDArray[np.intp]) -> bool:
    """Return whether every cell's rows agree with its config: see `read_table`."""
    cell = np.repeat(np.arange(len(cells)), rows)
    values = frame["value"].to_numpy()
    measures = [
        MEASURES[m].range if m in MEASURES else (-np.inf, np.inf) for m in _categories(frame, "measure")
    ]
    low, high = np.array(measures, float).reshape(-1, 2)[frame["measure"].cat.codes].T
    if ((values < low - ROUNDING) | (values > high + ROUNDING)).any():
        return False
    columns = key_of(COLUMNS if name == RESULTS else HISTORY_COLUMNS)
    keys = pd.DataFrame({"cell": cell, **{column: _numbers(frame[column]) for column in columns}})
    if keys.duplicated().any():
        return False
    seeds = keys[["cell", "data_seed", "seed"]].drop_duplicates().itertuples(index=False, name=None)
    if set(seeds) != {(number, *member) for number, one in enumerate(cells) for member in one.members}:
        return False
    if name != RESULTS:
        return True
    for column in CELL:
        said = frame[column].cat.categories.get_indexer if frame[column].dtype == "category" else np.asarray
        if (np.asarray(said([one.cell[column] for one in cells]))[cell] != _numbers(frame[column])).any():
            return False
    counts = keys.groupby(["cell", *SCORE]).size()
    members = np.array([len(one.members) for one in cells], np.intp)
    every = bool((counts.to_numpy() == members[counts.index.get_level_values("cell")]).all())
    return every and set(_categories(frame, "checkpoint")) <= set(CHECKPOINTS)


def _categories(frame: pd.DataFrame, column: str) -> Iterable[str]:
    return map(str, frame[column].cat.categories)


def _numbers(values: pd.Series) -> NDArray[np.integer]:
    """Return the codes of a text column, or the numbers of another."""
    return np.asarray(values.cat.codes if values.dtype == "category" else values)
