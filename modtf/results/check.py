"""Reads the files of a cell, and rejects values that contradict its config or that training cannot give."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.cell import Cell
from modtf.metrics import MEASURES
from modtf.observed import Place, at_place
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

ROUNDING = 1e-4  # how far a measure in a table may lie outside its range
ROUNDED = 1 / 500  # how far a row's sum may differ from one; archives round numbers to 2048ths


def read_table(folder: Path, name: str, cell: Cell) -> pd.DataFrame:
    """Return `results.csv` or `history.csv`, with texts as categories; raise `ValueError` if it is not such a
    table of the cell: for example with other members, or with values out of range."""
    path, columns = folder / name, COLUMNS if name == RESULTS else HISTORY_COLUMNS
    dtypes = {column: "category" if kind == "str" else kind for column, kind in columns.items()}
    try:
        frame = read_values(path, dtypes)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, OSError, ValueError) as error:
        raise ValueError(
            f"{path} is not a table ({error}). Remove its folder and run the cell again."
        ) from error
    if list(frame) != list(columns):
        raise _wrong(path, f"has the columns {', '.join(map(str, frame))}, expected {', '.join(columns)}")
    if frame.duplicated(key_of(columns)).any():
        raise _wrong(path, "holds a value twice")
    for column, value in cell.columns.items() if name == RESULTS else ():
        others = set(frame[column].unique().tolist()) - {value}
        if others:
            raise ValueError(
                f"{path} has {column}={others.pop()!r}, but its config has {value!r}, so one of them was "
                "copied or edited. Run the cell again."
            )
    members = set(zip(frame["data_seed"].tolist(), frame["seed"].tolist(), strict=True))
    if members != set(cell.members):
        one = min(members ^ set(cell.members))
        how, other = ("lacks", "has") if one in cell.members else ("holds", "lacks")
        raise _wrong(path, f"{how} the member (task {one[0]}, seed {one[1]}), which its config {other}")
    if name == RESULTS:
        counts = frame.groupby(list(SCORE), observed=True).size()
        lacking = counts[counts != len(cell.members)]
        if len(lacking) or not set(frame["checkpoint"].cat.categories) <= set(CHECKPOINTS):
            raise _wrong(path, f"lacks a score of some member: {counts.idxmin()}")
    _check_ranges(path, frame)
    return frame


def key_of(columns: Iterable[str]) -> list[str]:
    """Return the columns that together are unique for every row of a cell."""
    return [column for column in columns if column not in (*NOT_KEYS, *CELL)]


def _check_ranges(path: Path, frame: pd.DataFrame) -> None:
    for name, values in frame.groupby("measure", observed=True)["value"]:
        low, high = MEASURES[str(name)].range if name in MEASURES else (-np.inf, np.inf)
        outside = values[(values < low - ROUNDING) | (values > high + ROUNDING)]
        if len(outside):
            raise _wrong(
                path, f"holds {name}={outside.iloc[0]:g}; expected a number between {low:g} and {high:g}"
            )


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


def _wrong(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} {what}. Remove its folder and run the cell again.")


def _unread(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} cannot be read ({what}). Remove its folder and run the cell again.")
