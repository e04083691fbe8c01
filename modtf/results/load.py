"""Reads the tables of many cells as one pandas DataFrame, and their activation matrices."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.checks import check_choice
from modtf.evaluation.scores import measure_members
from modtf.families import FAMILIES
from modtf.metrics import GROUPS, MAIN_GROUPS, MEASURES, activation_measures
from modtf.protocol import tail_length
from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.check import read_matrices, read_table
from modtf.results.schema import (
    CELL,
    CHECKPOINTS,
    COLUMNS,
    HISTORY,
    HISTORY_COLUMNS,
    RESULTS,
    VARIANTS,
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
        text are categories, in the order of the registries. A measure that was registered after a cell was
        trained is computed from its activation matrices. No rows if no cell is finished. A warning names
        what is damaged, and `modtf.analysis.find_missing` that and what is not finished.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a model is there twice, or of a family that is not registered.

    Example:
        >>> frame = load_results("runs/study")  # doctest: +SKIP
        >>> frame.query("measure == 'alignment'").groupby("variant").value.mean()  # doctest: +SKIP
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished]
    read = [(cell, read_table(cell.path, RESULTS, cell.definition)) for cell in progress(cells)]
    return _concatenate([(cell, _with_new(cell, frame)) for cell, frame in read], {**COLUMNS, **JOINED})


def _with_new(cell: CellFolder, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a cell, and those of measures that were registered since, from its matrices."""
    known, there = [measure.name for measure in activation_measures()], set(frame["measure"].unique())
    new, old = ([name for name in known if (name in there) == wanted] for wanted in (False, True))
    if not new:
        return frame
    dtype = pd.CategoricalDtype([*frame["measure"].cat.categories, *new])
    parts = [frame.astype({"measure": dtype})]
    for place, rows in frame[frame["measure"].isin(old[:1])].groupby("place", observed=True):
        for found in load_activations([cell], str(place)):
            members = pd.MultiIndex.from_arrays([found.data_seeds, found.seeds])
            for checkpoint, some in rows.groupby("checkpoint", observed=True):
                index = members.get_indexer(pd.MultiIndex.from_frame(some[["data_seed", "seed"]]))
                values = found.measured(str(checkpoint), MAIN_GROUPS)
                for name in new:
                    measure = pd.Categorical([name] * len(some), dtype=dtype)
                    parts.append(some.assign(measure=measure, value=values[name][index]))
    return pd.concat(parts, ignore_index=True)


def load_history(directory: Source, progress: Progress = iter) -> pd.DataFrame:
    """The evaluations during training of all finished cells, with the columns of `CELL` in front.

    Returns:
        The columns of `CELL`, then step, data_seed, seed, measure, condition, place, value, protocol, folder.
        No rows if no finished cell has a history.

    Raises:
        FileNotFoundError, ValueError: as `load_results`.
    """
    cells = [cell for cell in find_cells(directory) if cell.is_finished and cell.has_history]
    tables = [(cell, read_table(cell.path, HISTORY, cell.definition)) for cell in progress(cells)]
    return _concatenate(tables, {**{name: COLUMNS[name] for name in CELL}, **HISTORY_COLUMNS, **JOINED})


@dataclass(frozen=True)
class Activations:
    """The activation matrices of one cell at one place, rows p(module | rule), one per member."""

    cell: dict[str, Any]  # the values of CELL
    last: NDArray[np.float64]  # [P, R, M]
    best: NDArray[np.float64]  # [P, R, M]
    history: NDArray[np.float64]  # [E, P, R, M]
    steps: NDArray[np.int64]  # [E]
    data_seeds: NDArray[np.int64]  # [P]
    seeds: NDArray[np.int64]  # [P]
    place: str = ""  # "" of a model with a single routed layer
    rule_names: tuple[str, ...] | None = None  # what a reader calls the rows
    tail: NDArray[np.float64] | None = None  # [E, P, R, M]; None where they are the last of the history

    def index(self, data_seed: int, seed: int) -> int | None:
        """The place of a member, None if the cell does not have it."""
        found = np.flatnonzero((self.data_seeds == data_seed) & (self.seeds == seed))
        return int(found[0]) if found.size else None

    def evaluations(self, checkpoint: str) -> NDArray[np.float64]:
        """The matrices `[E, P, R, M]` that a checkpoint is the mean of; `ValueError` if there is none."""
        check_choice("checkpoint", checkpoint, (*CHECKPOINTS, "pooled"))
        if checkpoint == "tail" and self.tail is not None:
            return self.tail
        if checkpoint == "tail":
            trained = self.history[self.steps > 0]
            return trained[-tail_length(len(trained)) :]
        if checkpoint == "pooled":
            return np.stack([self.last, self.best])
        return (self.last if checkpoint == "last" else self.best)[None]

    def measured(self, checkpoint: str, groups: Iterable[str] = GROUPS) -> dict[str, NDArray[np.float64]]:
        """Measure of some groups -> values `[P]`: the mean over a checkpoint's evaluations."""
        matrices = self.evaluations(checkpoint)
        found = measure_members(matrices.reshape(-1, *matrices.shape[2:]), groups=groups)
        return {name: values.reshape(matrices.shape[:2]).mean(axis=0) for name, values in found.items()}

    def at(self, checkpoint: str) -> NDArray[np.float64]:
        """The mean of the matrices of a checkpoint, `[P, R, M]`; `ValueError` if there is none."""
        return np.asarray(self.evaluations(checkpoint).mean(axis=0))


def load_activations(directory: Source, place: str = "", **where: Any) -> list[Activations]:
    """The activation matrices of the finished cells under `directory` that match `where`.

    Args:
        directory: one folder or several, or cells that were found before.
        place: of a model with several routed layers; cells that have no such place are left out.
        **where: values of the cells to read, for example `variant="modular", num_rules=8`; all by default.
            Matrices of a whole grid take much memory: name what you need.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a file cannot be read, or `where` names what is no column of a cell.
    """
    wanted = []
    for cell in find_cells(directory):
        unknown = set(where) - set(cell.cell)
        if unknown:
            raise ValueError(f"A cell has no {unknown.pop()!r}; it has {', '.join(cell.cell)}.")
        if cell.is_finished and cell.has_activation and all(cell.cell[k] == v for k, v in where.items()):
            known = cell.definition.task.places.get(place)
            arrays = {} if known is None else read_matrices(cell.path, cell.definition, known)
            if known and arrays:
                wanted.append(Activations(cell.cell, **arrays, place=place, rule_names=known.rule_names))
    return wanted


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its columns of text as categories in the order of tables, as `load_results` gives them.

    For results that were kept as one table: `with_categories(pd.read_csv(path, keep_default_na=False))`.
    """
    frame = with_place(frame)
    texts = [name for name in frame if frame[name].dtype != "category" and name in (*TEXTS, *JOINED)]
    return frame.assign(**{name: _in_order(name, pd.Categorical(frame[name])) for name in texts})


def _concatenate(tables: list[tuple[CellFolder, pd.DataFrame]], dtypes: Mapping[str, str]) -> pd.DataFrame:
    """One frame of all: texts become categories."""
    whole = [
        frame.assign(**cell.cell, protocol=cell.protocol, folder=str(cell.path)) for cell, frame in tables
    ]
    frame = pd.concat([one for one in whole if len(one)] or [pd.DataFrame(columns=list(dtypes))])
    numbers = {name: dtype for name, dtype in dtypes.items() if dtype != "str"}
    texts = {name: pd.Categorical(frame[name]) for name in dtypes if name not in numbers}
    ordered = {name: _in_order(name, values) for name, values in texts.items()}
    return frame.astype(numbers).assign(**ordered)[list(dtypes)].reset_index(drop=True)


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
