"""Reads the tables of many cells as one pandas DataFrame."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd

from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.schema import CELL, COLUMNS, HISTORY, HISTORY_COLUMNS, RESULTS, conform

Progress = Callable[[Sequence[CellFolder]], Iterable[CellFolder]]  # such as tqdm
JOINED = {"protocol": "str", "folder": "str"}  # what loading adds to the columns of the file


def load_results(directory: Source, progress: Progress = iter) -> pd.DataFrame:
    """All finished cells under `directory` (one folder or several) as one tidy table.

    Args:
        directory: where training wrote; cells may lie at any depth.
        progress: wraps the list of cells, for example `tqdm`.

    Returns:
        One row per member, checkpoint and measure: `modtf.results.COLUMNS` (`search` is "" and `seq_len` <NA>
        where they have no meaning), then `protocol`, equal for cells that were trained and evaluated in the
        same way, and `folder`. No rows if no cell is finished. Unfinished cells: `find_missing`.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a file is not what training writes, or a model is there twice.

    Example:
        >>> frame = load_results("runs/study")  # doctest: +SKIP
        >>> frame.query("measure == 'alignment'").groupby("variant").value.mean()  # doctest: +SKIP
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished]
    tables = [_results(cell).assign(**_joined(cell)) for cell in progress(cells)]
    return _concatenate(tables, {**COLUMNS, **JOINED})


def load_history(directory: Source, progress: Progress = iter) -> pd.DataFrame:
    """The evaluations during training of all finished cells, with the columns of `CELL` in front.

    Returns:
        arch, setting, search, num_rules, width, variant, step, data_seed, seed, measure, value, protocol,
        folder. No rows if no finished cell has a history.

    Raises:
        FileNotFoundError, ValueError: as `load_results`.
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished and cell.has_history]
    dtypes = {**{name: COLUMNS[name] for name in CELL}, **HISTORY_COLUMNS, **JOINED}
    tables = [_history(cell).assign(**cell.cell, **_joined(cell)) for cell in progress(cells)]
    return _concatenate(tables, dtypes)


def _joined(cell: CellFolder) -> dict[str, str]:
    return {"protocol": cell.protocol, "folder": str(cell.path)}


def _results(cell: CellFolder) -> pd.DataFrame:
    frame = _read(cell, RESULTS, COLUMNS)
    for name, value in cell.cell.items():
        others = set(frame[name]) - {value}
        if others:
            raise ValueError(
                f"{cell.path / RESULTS} speaks of {name}={others.pop()!r}, its config of {value!r}. "
                "One of them was copied or edited; run the cell again."
            )
    return frame


def _history(cell: CellFolder) -> pd.DataFrame:
    return _read(cell, HISTORY, HISTORY_COLUMNS)


def _read(cell: CellFolder, name: str, columns: Mapping[str, str]) -> pd.DataFrame:
    path = cell.path / name
    empty = {column: ["", "nan", "NaN"] for column in ("seq_len", "value") if column in columns}
    try:
        frame = pd.read_csv(path, keep_default_na=False, na_values=empty)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a table ({error}). Remove it and run its cell again.") from error
    return conform(frame, columns, str(path))


def _concatenate(tables: list[pd.DataFrame], dtypes: Mapping[str, str]) -> pd.DataFrame:
    tables = [table for table in tables if len(table)]
    if not tables:
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in dtypes.items()})
    return pd.concat(tables, ignore_index=True)[list(dtypes)].astype(dict(dtypes))
