"""Reads the tables of many cells at once: they are parsed and checked together."""

import io
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.checks import check_callable
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
    check_callable("progress", progress)
    together = _read_together(progress(cells), name)
    if together is not None and _are_right(cells, name, *together):
        return together
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
    cell = np.repeat(np.arange(len(cells)), rows)  # the cell of each row
    columns = key_of(COLUMNS if name == RESULTS else HISTORY_COLUMNS)
    keys = pd.DataFrame({"cell": cell, **{column: _numbers(frame[column]) for column in columns}})
    if not _in_range(frame) or keys.duplicated().any() or not _have_members(cells, keys):
        return False
    return name != RESULTS or (_have_columns(cells, cell, frame) and _are_whole(cells, keys, frame))


def _in_range(frame: pd.DataFrame) -> bool:
    unlimited = -np.inf, np.inf
    ranges = [MEASURES[m].range if m in MEASURES else unlimited for m in _categories(frame, "measure")]
    low, high = np.array(ranges, float).reshape(-1, 2)[frame["measure"].cat.codes].T
    values = frame["value"].to_numpy()
    return not ((values < low - ROUNDING) | (values > high + ROUNDING)).any()


def _have_members(cells: Sequence[CellFolder], keys: pd.DataFrame) -> bool:
    seeds = keys[["cell", "data_seed", "seed"]].drop_duplicates().itertuples(index=False, name=None)
    return set(seeds) == {(number, *member) for number, one in enumerate(cells) for member in one.members}


def _have_columns(cells: Sequence[CellFolder], cell: NDArray[np.intp], frame: pd.DataFrame) -> bool:
    """Return whether the columns that describe a cell equal its config in every row."""
    for column in CELL:
        values = [one.cell[column] for one in cells]
        categorical = frame[column].dtype == "category"
        expected = frame[column].cat.categories.get_indexer(values) if categorical else np.asarray(values)
        if (expected[cell] != _numbers(frame[column])).any():
            return False
    return True


def _are_whole(cells: Sequence[CellFolder], keys: pd.DataFrame, frame: pd.DataFrame) -> bool:
    """Return whether every score has a row for each member, at known checkpoints."""
    counts = keys.groupby(["cell", *SCORE]).size()
    members = np.array([len(one.members) for one in cells], np.intp)
    every = bool((counts.to_numpy() == members[counts.index.get_level_values("cell")]).all())
    return every and set(_categories(frame, "checkpoint")) <= set(CHECKPOINTS)


def _categories(frame: pd.DataFrame, column: str) -> Iterable[str]:
    return map(str, frame[column].cat.categories)


def _numbers(values: pd.Series) -> NDArray[np.integer]:
    """Return the codes of a text column, or the numbers of another."""
    return np.asarray(values.cat.codes if values.dtype == "category" else values)
