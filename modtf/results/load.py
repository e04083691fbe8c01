"""Reads the tables of many cells into one pandas DataFrame, and their activation matrices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.checks import check_choice
from modtf.evaluation.scores import measure_members
from modtf.families import FAMILIES
from modtf.metrics import GROUPS, MEASURES, activation_measures
from modtf.protocol import tail_length
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
from modtf.results.tables import Progress, read_matrices, read_tables

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
        parts.append([frame.iloc[begin:end]])
        if new.any():
            parts[-1] += _new_rows(
                cell, parts[-1][0], [n for n, is_new in zip(known, new, strict=True) if is_new]
            )
    numbers = np.array([sum(map(len, part)) for part in parts], np.intp)
    return pd.concat([one for part in parts for one in part], ignore_index=True), numbers


def _new_rows(cell: CellFolder, frame: pd.DataFrame, new: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield a cell's rows of measures that were registered after its training."""
    old = [name for name in (m.name for m in activation_measures()) if name not in new]
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
    place: str = ""  # "" for a model with a single routed layer
    rule_names: tuple[str, ...] | None = None  # names of the rows for readers
    tail: NDArray[np.float64] | None = None  # [E, P, R, M]; None if the history ends with them
    rule_probs: tuple[float, ...] | None = None  # the rules' frequencies [R]; None if all are equal

    def index(self, data_seed: int, seed: int) -> int | None:
        """Return the position of a member; None if the cell does not have it."""
        places = np.flatnonzero((self.data_seeds == data_seed) & (self.seeds == seed))
        return int(places[0]) if places.size else None

    def evaluations(self, checkpoint: str) -> NDArray[np.float64]:
        """Return the matrices `[E, P, R, M]` whose mean is a checkpoint; raise `ValueError` if unknown."""
        check_choice("checkpoint", checkpoint, (*CHECKPOINTS, "pooled"))
        if checkpoint == "tail" and self.tail is not None:
            return self.tail
        if checkpoint == "tail":
            trained = self.history[self.steps > 0]
            return trained[-tail_length(len(trained)) :]
        if checkpoint == "pooled":
            return np.stack([self.last, self.best])
        return (self.last if checkpoint == "last" else self.best)[None]

    def measured(
        self, checkpoint: str, groups: Iterable[str] | None = GROUPS
    ) -> dict[str, NDArray[np.float64]]:
        """Return measure -> values `[P]` of some groups: the mean over a checkpoint's evaluations."""
        matrices = self.evaluations(checkpoint)
        every = matrices.reshape(-1, *matrices.shape[2:])
        measured = measure_members(every, groups=groups, rule_probs=self.rule_probs)
        return {name: values.reshape(matrices.shape[:2]).mean(axis=0) for name, values in measured.items()}

    def at(self, checkpoint: str) -> NDArray[np.float64]:
        """Return the mean matrices `[P, R, M]` of a checkpoint; raise `ValueError` if it is unknown."""
        return np.asarray(self.evaluations(checkpoint).mean(axis=0))


def load_activations(directory: Source, place: str = "", **where: Any) -> list[Activations]:
    """Return the activation matrices of the finished cells under `directory` that match `where`.

    Args:
        directory: one folder or several, or cells that were found before.
        place: the routed layer; "" for models with a single one. Cells without this place are left out.
        **where: values of the cells to read, for example `variant="modular", num_rules=8`; all by default.
            The matrices of a whole grid take much memory: select what you need.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a file cannot be read, or `where` names an unknown column.
    """
    wanted = []
    if not isinstance(place, str):
        raise ValueError(f"place={place!r} is not valid; expected the name of a routed layer.")
    for cell in find_cells(directory):
        unknown = set(where) - set(cell.cell)
        if unknown:
            raise ValueError(
                f"{unknown.pop()!r} is not a property of a cell; expected one of {', '.join(cell.cell)}."
            )
        if cell.is_finished and cell.has_activation and all(cell.cell[k] == v for k, v in where.items()):
            task = cell.definition.task
            known = task.places.get(place)
            arrays = {} if known is None else read_matrices(cell.path, cell.definition, known)
            if known and arrays:
                probs, names = None if place else task.family.rule_probs(task), known.rule_names
                wanted.append(
                    Activations(cell.cell, **arrays, place=place, rule_names=names, rule_probs=probs)
                )
    return wanted


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its text columns as categories in the order of tables, like `load_results`.

    For results that were saved as one table: `with_categories(pd.read_csv(path, keep_default_na=False))`.
    """
    frame = with_place(frame)
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
