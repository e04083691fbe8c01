"""Reads the tables and matrices of many cells.

The tables are parsed and checked together. Values that contradict their configs or that training cannot give
are rejected.
"""

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.base.checks import check_callable, check_choice
from modtf.base.files import regular_file
from modtf.base.words import in_a_row
from modtf.evaluation.scores import measure_members
from modtf.metrics import GROUPS, MEASURES, activation_measures
from modtf.models.source import hash_of_source
from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.schema import (
    ACTIVATION,
    CELL,
    CHECKPOINTS,
    COLUMNS,
    HISTORY,
    HISTORY_COLUMNS,
    MATRICES,
    MEASURE_SOURCES,
    NOT_KEYS,
    NUMBERS,
    OPTIONAL,
    RESULTS,
    SCORE,
    TAIL,
    VARIANTS,
    read_activations,
    read_values,
    with_place,
)
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES
from modtf.tasks.observed import Place, at_place
from modtf.tasks.protocol import tail_of

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
    present = {name: stored for name, stored in names.items() if stored in stored_arrays}
    arrays |= {name: stored_arrays[stored].astype(np.float64) for name, stored in present.items()}
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
    tail: NDArray[np.float64] | None = None  # [E, P, R, M]; None in older cells
    rule_probs: tuple[float, ...] | None = None  # the rules' frequencies [R]; None if all are equal

    def index(self, data_seed: int, seed: int) -> int | None:
        """Return the position of a member; None if the cell does not have it."""
        places = np.flatnonzero((self.data_seeds == data_seed) & (self.seeds == seed))
        return int(places[0]) if places.size else None

    def evaluations(self, checkpoint: str) -> NDArray[np.float64]:
        """Return the matrices `[E, P, R, M]` whose mean is a checkpoint; raise `ValueError` if unknown.

        Older cells without matrices for "tail" give those of the last evaluations during training, which
        read validation data.
        """
        check_choice("checkpoint", checkpoint, (*CHECKPOINTS, "pooled"))
        if checkpoint == "tail" and self.tail is not None:
            return self.tail
        if checkpoint == "tail":
            return tail_of(self.history)
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
    if not isinstance(place, str):
        raise ValueError(f"place={place!r} is not valid; expected the name of a routed layer.")
    wanted = []
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
                probs = None if place else task.family.rule_probs(task)
                more: dict[str, Any] = {"place": place, "rule_names": known.rule_names, "rule_probs": probs}
                wanted.append(Activations(cell.cell, **(more | arrays)))
    return wanted


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
    changed = _changed_measures(cells)
    lacking = ~present[:, codes]
    for new, of_cell in zip(lacking, changed, strict=True):
        new |= np.isin(known, list(of_cell))
    if not lacking.any():
        return frame, rows
    if any(changed):
        listed = in_a_row(sorted(set().union(*changed)))
        warnings.warn(
            f"Measures whose files have changed since a cell was trained: {listed}. Their values are "
            "computed anew from its activation matrices; those during training are left out.",
            stacklevel=3,
        )
    dtype = pd.CategoricalDtype(list(dict.fromkeys([*frame["measure"].cat.categories, *known])))
    frame = frame.astype({"measure": dtype})
    ends = np.cumsum(rows)
    parts = []
    for cell, begin, end, new in zip(cells, ends - rows, ends, lacking, strict=True):
        stored, names = frame.iloc[begin:end], list(compress(known, new))
        added = _new_rows(cell, stored, names) if names else ()
        parts.append(pd.concat([stored[~stored["measure"].isin(names)], *added]))
    return pd.concat(parts, ignore_index=True), np.array([len(part) for part in parts], np.intp)


def _changed_measures(cells: Sequence[CellFolder]) -> list[set[str]]:
    """Return the measures of plug-ins that each cell was measured with, and whose files have changed."""
    now = {name: hash_of_source(MEASURES[name].function) for name in MEASURES.outside}
    recorded = [cell.config.get(MEASURE_SOURCES, {}) for cell in cells]
    return [
        {name for name, source in one.items() if now.get(name) and source not in (None, now[name])}
        for one in recorded
    ]


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
    frame, rows = read_tables(cells, HISTORY, progress)
    changed = _changed_measures(cells)
    if any(changed):
        cell = np.repeat(np.arange(len(cells)), rows)
        kept = np.array(
            [name not in changed[i] for i, name in zip(cell, frame["measure"], strict=True)], bool
        )
        frame, rows = frame[kept], np.bincount(cell[kept], minlength=len(cells))
    return _known_errors(_described(cells, frame, rows, columns))


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its text columns as categories in the order of tables, like `load_results`.

    For results that were saved as one table: `with_categories(pd.read_csv(path, keep_default_na=False))`.
    """
    frame = with_place(frame)
    if "value" in frame and not pd.api.types.is_numeric_dtype(frame["value"]):
        frame = frame.assign(value=frame["value"].replace("", np.nan).astype(float))  # "" of a diverged model
    texts = [name for name in frame if frame[name].dtype != "category" and name in (*TEXTS, *JOINED)]
    frame = frame.assign(**{n: frame[n].astype(object).fillna("") for n in texts if n in OPTIONAL})
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
