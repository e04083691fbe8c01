"""Reads the tables of many cells as one pandas DataFrame."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from modtf.families import FAMILIES
from modtf.metrics import MEASURES
from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.schema import (
    CELL,
    CHECKPOINTS,
    COLUMNS,
    HISTORY,
    HISTORY_COLUMNS,
    NOT_KEYS,
    RESULTS,
    VARIANTS,
    read_values,
    with_place,
)

Progress = Callable[[Sequence[CellFolder]], Iterable[CellFolder]]  # such as tqdm
TEXTS = [name for name, dtype in COLUMNS.items() if dtype == "str"]
JOINED = {"protocol": "str", "folder": "str"}  # what loading adds to the columns of the file


def load_results(directory: Source, progress: Progress = iter) -> pd.DataFrame:
    """All finished cells under `directory`, one folder or several, at any depth, as one tidy table.

    `progress` wraps the list of cells, for example `tqdm`.

    Returns:
        One row per member, checkpoint, measure, condition and place: `modtf.results.COLUMNS`, then
        `protocol`, equal for cells that were trained and evaluated in the same way, and `folder`. Columns of
        text are categories, in the order of the registries. No rows if no cell is finished. Unfinished cells:
        `modtf.analysis.find_missing`.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a file is not what training writes, or a model is there twice.

    Example:
        >>> frame = load_results("runs/study")  # doctest: +SKIP
        >>> frame.query("measure == 'alignment'").groupby("variant").value.mean()  # doctest: +SKIP
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished]
    tables = [(cell, _results(cell)) for cell in progress(cells)]
    return _concatenate(tables, {**COLUMNS, **JOINED})


def load_history(directory: Source, progress: Progress = iter) -> pd.DataFrame:
    """The evaluations during training of all finished cells, with the columns of `CELL` in front.

    Returns:
        The columns of `CELL`, then step, data_seed, seed, measure, condition, place, value, protocol, folder.
        No rows if no finished cell has a history.

    Raises:
        FileNotFoundError, ValueError: as `load_results`.
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished and cell.has_history]
    tables = [(cell, _read(cell, HISTORY, HISTORY_COLUMNS)) for cell in progress(cells)]
    return _concatenate(tables, {**{name: COLUMNS[name] for name in CELL}, **HISTORY_COLUMNS, **JOINED})


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its columns of text as categories in the order of tables, as `load_results` gives them.

    For results that were kept as one table: `with_categories(pd.read_csv(path, keep_default_na=False))`.
    """
    frame = with_place(frame)
    texts = [name for name in frame if frame[name].dtype != "category" and name in (*TEXTS, *JOINED)]
    return frame.assign(**{name: _in_order(name, pd.Categorical(frame[name])) for name in texts})


def _results(cell: CellFolder) -> pd.DataFrame:
    frame = _read(cell, RESULTS, COLUMNS)
    for name, value in cell.cell.items():
        others = set(frame[name].unique().tolist()) - {value}
        if others:
            raise ValueError(
                f"{cell.path / RESULTS} speaks of {name}={others.pop()!r}, its config of {value!r}. "
                "One of them was copied or edited; run the cell again."
            )
    return frame


def _read(cell: CellFolder, name: str, columns: Mapping[str, str]) -> pd.DataFrame:
    path = cell.path / name
    dtypes = {column: "category" if kind == "str" else kind for column, kind in columns.items()}
    try:
        frame = read_values(path, dtypes)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise ValueError(f"{path} is not a table ({error}). Remove it and run its cell again.") from error
    if list(frame) != list(columns):
        raise ValueError(
            f"{path} has the columns {', '.join(map(str, frame))}, expected {', '.join(columns)}. "
            "Remove its folder and run the cell again."
        )
    key = [column for column in columns if column not in (*NOT_KEYS, *CELL)]
    if frame.duplicated(key).any():
        raise ValueError(f"{path} gives a value twice. Remove its folder and run the cell again.")
    return frame


def _concatenate(tables: list[tuple[CellFolder, pd.DataFrame]], dtypes: Mapping[str, str]) -> pd.DataFrame:
    """One frame of all: what all rows of a cell share is repeated, texts become categories."""
    tables = [(cell, frame) for cell, frame in tables if len(frame)]
    if not tables:
        empty = {name: "category" if dtype == "str" else dtype for name, dtype in dtypes.items()}
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in empty.items()})
    lengths = [len(frame) for _, frame in tables]
    shared = pd.DataFrame(
        {**cell.cell, "protocol": cell.protocol, "folder": str(cell.path)} for cell, _ in tables
    )
    columns = {}
    for name, dtype in dtypes.items():
        if name in shared:
            values = pd.Categorical(shared[name]) if dtype == "str" else shared[name].to_numpy(dtype)
            columns[name] = values.take(np.repeat(np.arange(len(tables)), lengths))
        elif dtype == "str":
            columns[name] = union_categoricals([frame[name] for _, frame in tables])
        else:
            columns[name] = np.concatenate([frame[name].to_numpy() for _, frame in tables])
        if dtype == "str":
            columns[name] = _in_order(name, columns[name])
    return pd.DataFrame(columns)


def _in_order(name: str, values: pd.Categorical) -> pd.Categorical:
    """The categories in the order of tables and figures, those that have none sorted behind."""
    settings = (setting for family in FAMILIES.values() for setting in family.settings)
    conditions = (c for family in FAMILIES.values() for c in (*family.condition_names, *family.groups))
    orders: dict[str, Iterable[str]] = {
        "arch": FAMILIES,
        "setting": settings,
        "variant": VARIANTS,
        "checkpoint": CHECKPOINTS,
        "measure": MEASURES,
        "condition": conditions,
    }
    found = set(values.categories)
    first = [value for value in dict.fromkeys(orders.get(name, ())) if value in found]
    return values.set_categories([*first, *sorted(found - set(first))])
