"""Reads the tables of many cells into one pandas DataFrame."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.metrics import MEASURES, activation_measures
from modtf.results.activations import load_activations
from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.schema import (
    CELL,
    CHECKPOINTS,
    COLUMNS,
    HISTORY,
    HISTORY_COLUMNS,
    OPTIONAL,
    RESULTS,
    VARIANTS,
    with_place,
)
from modtf.results.tables import Progress, read_tables
from modtf.tasks.families import FAMILIES

TEXTS = [name for name, dtype in COLUMNS.items() if dtype == "str"]
JOINED = {"protocol": "str", "folder": "str"}  # columns that loading adds


def load_results(directory: Source, progress: Progress = iter) -> pd.DataFrame:
    """Return all finished cells under `directory`, one folder or several, at any depth, as one tidy table.

    `progress` wraps the list of cells, for example `tqdm`.

    Returns:
        One row per member, checkpoint, measure, condition and place: `modtf.results.COLUMNS`, then
        `protocol`, equal for cells with the same training and evaluation, and `folder`. Text columns are
        categories, in the order of the registries. A measure registered after a cell's training is computed
        from its activation matrices. There are no rows if no cell is finished. A warning names damaged cells;
        `modtf.analysis.find_missing` lists them with the unfinished ones.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a model occurs twice, or its family is not registered.

    Example:
        >>> frame = load_results("runs/study")  # doctest: +SKIP
        >>> frame.query("measure == 'alignment'").groupby("variant").value.mean()  # doctest: +SKIP
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished]
    frame, rows = _with_new(cells, *read_tables(cells, RESULTS, progress))
    return _known_errors(_described(cells, frame, rows, {**COLUMNS, **JOINED}))


def _with_new(
    cells: Sequence[CellFolder], frame: pd.DataFrame, rows: NDArray[np.intp]
) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return the rows of cells, with rows from their matrices for measures that were registered later."""
    known = [measure.name for measure in activation_measures()]
    codes = frame["measure"].cat.categories.get_indexer(known)
    present = np.zeros((len(cells), len(frame["measure"].cat.categories) + 1), bool)  # the last: code -1
    present[np.repeat(np.arange(len(cells)), rows), frame["measure"].cat.codes] = True
    lacking = ~present[:, codes]
    if not lacking.any():
        return frame, rows
    dtype = pd.CategoricalDtype(list(dict.fromkeys([*frame["measure"].cat.categories, *known])))
    frame = frame.astype({"measure": dtype})
    ends = np.cumsum(rows)
    parts = []
    for cell, begin, end, new in zip(cells, ends - rows, ends, lacking, strict=True):
        stored = frame.iloc[begin:end]
        added = _new_rows(cell, stored, list(compress(known, new))) if new.any() else ()
        parts.append(pd.concat([stored, *added]))
    return pd.concat(parts, ignore_index=True), np.array([len(part) for part in parts], np.intp)


def _new_rows(cell: CellFolder, frame: pd.DataFrame, new: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield a cell's rows of measures that were registered after its training."""
    old = [measure.name for measure in activation_measures() if measure.name not in new]
    for place, rows in frame[frame["measure"].isin(old[:1])].groupby("place", observed=True):
        for activations in load_activations([cell], str(place)):
            members = pd.MultiIndex.from_arrays([activations.data_seeds, activations.seeds])
            for checkpoint, some in rows.groupby("checkpoint", observed=True):
                index = members.get_indexer(pd.MultiIndex.from_frame(some[["data_seed", "seed"]]))
                values = activations.measured(str(checkpoint), None)
                for name in new:
                    measure = pd.Categorical([name] * len(some), dtype=frame["measure"].dtype)
                    yield some.assign(measure=measure, value=values[name][index])


def load_history(directory: Source, progress: Progress = iter) -> pd.DataFrame:
    """Return the evaluations during training of all finished cells, with the columns of `CELL` in front.

    Returns:
        The columns of `CELL`, then step, data_seed, seed, measure, condition, place, value, protocol, folder.
        There are no rows if no finished cell has a history.

    Raises:
        FileNotFoundError, ValueError: as `load_results`.
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished and cell.has_history]
    columns = {**{name: COLUMNS[name] for name in CELL}, **HISTORY_COLUMNS, **JOINED}
    return _known_errors(_described(cells, *read_tables(cells, HISTORY, progress), columns))


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its text columns as categories in the order of tables, like `load_results`.

    For results that were saved as one table: `with_categories(pd.read_csv(path, keep_default_na=False))`.
    """
    frame = with_place(frame)
    if "value" in frame and not pd.api.types.is_numeric_dtype(frame["value"]):
        frame = frame.assign(value=frame["value"].replace("", np.nan).astype(float))  # "" of a diverged model
    texts = [name for name in frame if frame[name].dtype != "category" and name in (*TEXTS, *JOINED)]
    frame = frame.assign(
        **{name: frame[name].astype(object).fillna("") for name in texts if name in OPTIONAL}
    )
    return frame.assign(**{name: _in_order(name, pd.Categorical(frame[name])) for name in texts})


def _described(
    cells: Sequence[CellFolder], frame: pd.DataFrame, rows: NDArray[np.intp], dtypes: Mapping[str, str]
) -> pd.DataFrame:
    """Return the frame with the description of its cells, `rows` rows each; texts are ordered categories."""
    described = [{**cell.cell, "protocol": cell.protocol, "folder": str(cell.path)} for cell in cells]
    columns: dict[str, Any] = {}
    for name, dtype in dtypes.items():
        if name in (*CELL, *JOINED):
            values = [one[name] for one in described]
            if dtype == "str":
                once = pd.Categorical(values)
                columns[name] = pd.Categorical.from_codes(np.repeat(once.codes, rows), dtype=once.dtype)
            else:
                columns[name] = np.repeat(np.array(values, dtype), rows)
        else:
            columns[name] = frame[name].array
        if dtype == "str":
            columns[name] = _in_order(name, columns[name].remove_unused_categories())
    return pd.DataFrame(columns)


def _known_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with NaN for errors beside a loss of NaN; earlier versions stored that of guessing."""
    diverged = frame[(frame["measure"] == "loss") & frame["value"].isna()]
    if diverged.empty:
        return frame
    of = ["folder", "data_seed", "seed", "condition", "place", *{"checkpoint", "step"}.intersection(frame)]
    guessed = pd.MultiIndex.from_frame(frame[of]).isin(pd.MultiIndex.from_frame(diverged[of]))
    return frame.assign(value=frame["value"].mask(guessed & (frame["measure"] == "error")))


def _in_order(name: str, values: pd.Categorical) -> pd.Categorical:
    """Return the categories in the order of tables and figures; unknown ones follow, sorted."""
    orders: dict[str, Iterable[str]] = {
        "arch": FAMILIES,
        "setting": (setting for family in FAMILIES.values() for setting in family.settings),
        "variant": VARIANTS,
        "checkpoint": CHECKPOINTS,
        "measure": MEASURES,
        "condition": (c for family in FAMILIES.values() for c in family.all_names),
    }
    names = set(values.categories)
    first = [value for value in dict.fromkeys(orders.get(name, ())) if value in names]
    return values.set_categories([*first, *sorted(names - set(first))])
