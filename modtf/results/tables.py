"""Reads the files of cells, and rejects values that contradict their configs or that training cannot give.

The tables of many cells are parsed and checked together.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.base.checks import check_callable
from modtf.base.files import regular_file
from modtf.metrics import MEASURES
from modtf.results.cells import CellFolder
from modtf.results.schema import (
    ACTIVATION,
    CELL,
    CHECKPOINTS,
    COLUMNS,
    HISTORY_COLUMNS,
    MATRICES,
    NOT_KEYS,
    NUMBERS,
    RESULTS,
    SCORE,
    TAIL,
    read_activations,
    read_values,
)
from modtf.tasks.cell import Cell
from modtf.tasks.observed import Place, at_place

ROUNDING = 1e-4  # how far a measure in a table may lie outside its range
ROUNDED = 1 / 500  # how far a row's sum may differ from one; archives round numbers to 2048ths
UNPARSED = (pd.errors.ParserError, pd.errors.EmptyDataError, OSError, ValueError)
AGAIN = "Remove its folder and run the cell again."

Progress = Callable[[Sequence[CellFolder]], Iterable[CellFolder]]  # such as tqdm


def read_tables(
    cells: Sequence[CellFolder], name: str, progress: Progress = iter
) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return the rows of `results.csv` or `history.csv` of all cells, and the number of rows per cell.

    Texts are categories. The files are parsed as one. If that finds a fault, or a file has another layout
    than training writes, each file is read alone, which names the faulty one.

    Raises:
        ValueError: if a file is not such a table of its cell: for example with other members, or with values
            out of range.
    """
    check_callable("progress", progress)
    columns = COLUMNS if name == RESULTS else HISTORY_COLUMNS
    dtypes = {column: "category" if kind == "str" else kind for column, kind in columns.items()}
    together = _read_together(progress(cells), name, dtypes)
    if together is not None and not _fault(cells, name, *together):
        return together
    tables = [_read_alone(cell, name, dtypes) for cell in cells]
    texts = {column: kind for column, kind in dtypes.items() if kind == "category"}
    whole = pd.concat(tables, ignore_index=True).astype(texts)
    return whole, np.array([len(table) for table in tables], np.intp)


def _read_together(
    cells: Iterable[CellFolder], name: str, dtypes: Mapping[str, str]
) -> tuple[pd.DataFrame, NDArray[np.intp]] | None:
    """Return the rows of all files and their numbers; None if they cannot be parsed as one."""
    header = ",".join(dtypes).encode() + b"\n"
    parts, numbers = [header], []
    try:
        for cell in cells:
            content = regular_file(cell.path / name).read_bytes()
            if not content.startswith(header) or not content.endswith(b"\n"):
                return None
            parts.append(content[len(header) :])
            numbers.append(parts[-1].count(b"\n"))
        frame = read_values(io.StringIO(b"".join(parts).decode("utf-8")), dtypes)
    except UNPARSED:
        return None
    rows = np.array(numbers, np.intp)
    # a line break in a text, or a blank line, is not a row: rows could then not be assigned to cells
    return (frame, rows) if list(frame) == list(dtypes) and len(frame) == rows.sum() else None


def _read_alone(cell: CellFolder, name: str, dtypes: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of one cell; raise `ValueError` with the first fault."""
    path = cell.path / name
    try:
        frame = read_values(path, dtypes)
    except UNPARSED as error:
        raise ValueError(f"{path} is not a table ({error}). {AGAIN}") from error
    fault = f"has the columns {', '.join(map(str, frame))}, expected {', '.join(dtypes)}"
    if list(frame) == list(dtypes):
        fault = _fault([cell], name, frame, np.array([len(frame)]))
    if fault:
        raise ValueError(f"{path} {fault}. {AGAIN}")
    return frame


def _fault(cells: Sequence[CellFolder], name: str, frame: pd.DataFrame, rows: NDArray[np.intp]) -> str:
    """Return the first fault of the rows of cells, `rows` for each, in words; "" if there is none."""
    cell = np.repeat(np.arange(len(cells)), rows)  # the number of each row's cell
    columns = [column for column in frame if column not in (*NOT_KEYS, *CELL)]
    keys = pd.DataFrame({"cell": cell, **{column: _numbers(frame[column]) for column in columns}})
    if keys.duplicated().any():
        return "holds a value twice"
    return (
        (_fault_of_columns(cells, cell, frame) if name == RESULTS else "")
        or _fault_of_members(cells, keys)
        or (_fault_of_scores(cells, keys, frame) if name == RESULTS else "")
        or _fault_of_ranges(frame)
    )


def _fault_of_columns(cells: Sequence[CellFolder], cell: NDArray[np.intp], frame: pd.DataFrame) -> str:
    """Compare the columns that describe a cell with its config."""
    for column in CELL:
        values = [one.cell[column] for one in cells]
        categorical = frame[column].dtype == "category"
        expected = frame[column].cat.categories.get_indexer(values) if categorical else np.asarray(values)
        wrong = np.flatnonzero(expected[cell] != _numbers(frame[column]))
        if wrong.size:
            words = f"has {column}={frame[column].tolist()[wrong[0]]!r}, but its config has"
            return f"{words} {values[cell[wrong[0]]]!r}, so one of them was copied or edited"
    return ""


def _fault_of_members(cells: Sequence[CellFolder], keys: pd.DataFrame) -> str:
    """Compare the members with those of the configs."""
    found = set(keys[["cell", "data_seed", "seed"]].drop_duplicates().itertuples(index=False, name=None))
    expected = {(number, *member) for number, one in enumerate(cells) for member in one.members}
    if found != expected:
        one = min(found ^ expected)
        how, other = ("lacks", "has") if one in expected else ("holds", "lacks")
        return f"{how} the member (task {one[1]}, seed {one[2]}), which its config {other}"
    return ""


def _fault_of_scores(cells: Sequence[CellFolder], keys: pd.DataFrame, frame: pd.DataFrame) -> str:
    """Look for scores without a row for each member, and for unknown checkpoints."""
    counts = keys.groupby(["cell", *SCORE]).size()
    members = np.array([len(one.members) for one in cells], np.intp)
    lacking = counts.index[counts.to_numpy() != members[counts.index.get_level_values("cell")]]
    if len(lacking):
        codes = zip(SCORE, lacking[0][1:], strict=True)
        names = (frame[column].cat.categories[code] for column, code in codes)
        return f"lacks a score of some member: {', '.join(filter(None, names))}"
    unknown = set(map(str, frame["checkpoint"].cat.categories)) - set(CHECKPOINTS)
    return f"has the unknown checkpoint {unknown.pop()!r}" if unknown else ""


def _fault_of_ranges(frame: pd.DataFrame) -> str:
    """Look for values outside the range of their measure."""
    names = list(map(str, frame["measure"].cat.categories))
    ranges = [MEASURES[name].range if name in MEASURES else (-np.inf, np.inf) for name in names]
    codes, values = frame["measure"].cat.codes, frame["value"].to_numpy()
    low, high = np.array(ranges, float).reshape(-1, 2)[codes].T
    outside = np.flatnonzero((values < low - ROUNDING) | (values > high + ROUNDING))
    if not outside.size:
        return ""
    row = outside[0]
    expected = f"expected a number between {low[row]:g} and {high[row]:g}"
    return f"holds {names[codes.iloc[row]]}={values[row]:g}; {expected}"


def _numbers(values: pd.Series) -> NDArray[np.integer]:
    """Return the codes of a text column, or the numbers of another."""
    return np.asarray(values.cat.codes if values.dtype == "category" else values)


def read_matrices(folder: Path, cell: Cell, place: Place) -> dict[str, NDArray[Any]]:
    """Return the arrays of `activation.npz` at a place by name; none if the model lacks the place.

    Raise `ValueError` if they cannot be read, or belong to another cell.
    """
    path, stored_arrays = folder / ACTIVATION, read_activations(folder)
    for name, array in stored_arrays.items():
        if array.dtype.kind not in "fiu":
            raise _unread(path, f"{name} is of type {array.dtype}; expected numbers")
    names = {name: at_place(name, place.name) for name in (*MATRICES, TAIL)}
    if place.name and names["last"] not in stored_arrays:
        return {}
    arrays: dict[str, Any] = {name: stored_arrays[name].astype(np.int64) for name in NUMBERS}
    arrays |= {
        name: stored_arrays[stored].astype(np.float64)
        for name, stored in names.items()
        if stored in stored_arrays
    }
    members, steps = (len(cell.members),), arrays["steps"].shape[:1]
    matrices = (*members, place.num_rules, *arrays.get("last", np.ones(1)).shape[2:3])
    expected = {"last": matrices, "best": matrices, "history": (*steps, *matrices), "steps": steps}
    if TAIL in arrays:
        expected[TAIL] = (*arrays[TAIL].shape[:1], *matrices)
    for name in (*expected, *NUMBERS):
        shape = arrays[name].shape if name in arrays else None
        if shape != expected.get(name, members):
            raise _unread(path, f"{name} has shape {shape}; expected {expected.get(name, members)}")
    if list(zip(arrays["data_seeds"], arrays["seeds"], strict=True)) != list(cell.members):
        raise _unread(path, "its members differ from those of the config")
    for name in expected.keys() - {"steps"}:
        sums, known = arrays[name].sum(axis=-1), np.isfinite(arrays[name]).all(axis=-1)  # else it diverged
        if (arrays[name] < -ROUNDED).any() or (np.abs(sums - 1)[known] > ROUNDED).any():
            raise _unread(path, f"the rows of {name} are not shares that sum to 1")
    return arrays


def _unread(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} cannot be read ({what}). {AGAIN}")
