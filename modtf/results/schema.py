"""The files of a finished cell: their columns, how they are written, and their manifest.

Training writes, reports read. The manifest, `manifest.json`, is written last. It holds the checksums of
tables, matrices and config, and the sizes of weights. Weights are checked when they are loaded.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from modtf.base.files import (
    UNREADABLE,
    atomic_path,
    check_ratio,
    read_text,
    regular_file,
    walk,
    write_csv,
    write_text,
)
from modtf.base.version import __version__
from modtf.tasks.cell import VARIANTS as VARIANTS
from modtf.tasks.observed import at_place
from modtf.tasks.task import science_hash

RESULTS = "results.csv"
HISTORY = "history.csv"
ERROR = "error.json"  # why a cell failed
#: a measure of the history: 1 at the step after which a member's weights were not finite
DIVERGED = "diverged"
#: in archives: what was corrected after training, how, in which commit, and the old lines of the tables
CORRECTIONS = "corrections.json"
CONFIG = "config.json"  # `Cell.to_dict()`, "version" and "provenance" of the last run
MEASURE_SOURCES = "measure_sources"  # in the config: plug-in's measure -> hash of its file
ACTIVATION = "activation.npz"
MATRICES = ("last", "best", "history")  # its arrays, by place: "last_encoder", or "last" of the only one
TAIL = "tail"  # one more array, which some older cells lack
NUMBERS = ("steps", "data_seeds", "seeds")
PRIVATE = ".modtf"  # in a study's folder: locks, logs, damaged cells

#: tail: mean over the last evaluations of training; last: after the last step; best: at the smallest
#: validation loss, in classification at the highest validation accuracy
CHECKPOINTS = ("tail", "last", "best")

KIND = ("arch", "setting", "task_options")  # the task type; results of different types are never combined
CELL = (*KIND, "num_rules", "width", "variant", "model_options")
MEMBER = (*CELL, "data_seed", "seed")
SCORE = ("checkpoint", "measure", "condition", "place")
OPTIONAL = ("task_options", "model_options", "place")  # text that may be "", which pandas reads as NaN

# Options are text, such as "search=v2" or "modules=16,temperature=2", or "". The place is "" for a model with
# a single routed layer, and for performance; files of older versions lack this column.
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(KIND, "str"),
    **dict.fromkeys(("num_rules", "num_modules", "width"), "int64"),
    **dict.fromkeys(("variant", "model_options"), "str"),
    **dict.fromkeys(("data_seed", "seed", "num_parameters", "steps"), "int64"),
    **dict.fromkeys(SCORE, "str"),
    "value": "float64",
}
_PLACED = ("data_seed", "seed", "measure", "condition", "place", "value")
HISTORY_COLUMNS: Mapping[str, str] = {"step": "int64", **{name: COLUMNS[name] for name in _PLACED}}
NOT_KEYS = ("value", "num_modules", "num_parameters", "steps")  # rows of one model may not differ in these

_VERSION = tuple(int(part) for part in pd.__version__.split(".")[:2])
#: makes pandas read numbers exactly; from 3.1 on this is its default
EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _VERSION < (3, 1) else {}


def conform(
    frame: pd.DataFrame, columns: Mapping[str, str] = COLUMNS, source: str = "The table"
) -> pd.DataFrame:
    """Return the frame with exactly `columns`, in their order and with their dtypes; missing options are "".

    Raise `ValueError` if a column is missing or unknown, a value does not fit, or rows are duplicates.
    """
    frame = with_place(frame)
    missing, unknown = [c for c in columns if c not in frame], [c for c in frame if c not in columns]
    if missing or unknown:
        raise ValueError(
            f"{source} does not have the columns of modtf's results: missing {', '.join(missing) or 'none'}; "
            f"unknown {', '.join(map(str, unknown)) or 'none'}. Expected {', '.join(columns)}."
        )
    frame = frame[list(columns)].reset_index(drop=True)
    empty = [name for name in OPTIONAL if name in columns]
    frame = frame.assign(**{name: frame[name].astype(object).fillna("") for name in empty})
    try:
        for name, kind in columns.items():  # `astype` would cut decimals off
            if kind == "int64" and frame[name].dtype.kind == "f" and (frame[name] % 1 != 0).any():
                raise ValueError(f"{name} must hold whole numbers")
        frame = frame.astype(dict(columns))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source} holds a value of the wrong type: {error}") from error
    key = [c for c in columns if c not in NOT_KEYS]
    repeated = frame[frame.duplicated(key)]
    if len(repeated):
        raise ValueError(
            f"{source} holds {len(repeated)} value(s) twice, the first for "
            f"{repeated.iloc[0][key].to_dict()}; expected one value for each member and measure."
        )
    return frame


def with_place(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the column `place` before its last; "" if there was none."""
    if "place" in frame or "condition" not in frame:
        return frame
    frame = frame.copy(deep=False)
    frame.insert(frame.shape[1] - 1, "place", pd.Categorical([""] * len(frame)))
    return frame


def read_values(
    path: str | os.PathLike[str] | TextIO, dtypes: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Read a CSV file with exact numbers.

    Raise `ValueError` if it is not a table of these types, by default those that pandas infers.
    """
    source = regular_file(path) if isinstance(path, str | os.PathLike) else path
    types, missing = None if dtypes is None else dict(dtypes), {"value": ["", "nan", "NaN"]}
    # "" of another column means that a model has no options
    return with_place(pd.read_csv(source, dtype=types, keep_default_na=False, na_values=missing, **EXACT))


def write_results(folder: str | os.PathLike[str], frame: pd.DataFrame) -> Path:
    """Write `results.csv` atomically: a reader sees the whole file or none.

    Args:
        folder: the cell's folder; it must exist.
        frame: one row per member, checkpoint, measure, condition and place, with `COLUMNS`. Measures of the
            activation matrix and of training, such as "seconds", have the condition "iid".

    Raises:
        ValueError: see `conform`.
    """
    return _write(Path(folder, RESULTS), frame, COLUMNS)


def write_history(folder: str | os.PathLike[str], frame: pd.DataFrame) -> Path:
    """Write `history.csv` with `HISTORY_COLUMNS`, like `write_results`."""
    return _write(Path(folder, HISTORY), frame, HISTORY_COLUMNS)


def _write(path: Path, frame: pd.DataFrame, columns: Mapping[str, str]) -> Path:
    write_csv(path, conform(frame, columns, str(path)))
    return path


def write_activations(
    folder: str | os.PathLike[str],
    *,
    last: ArrayLike | Mapping[str, ArrayLike],
    best: ArrayLike | Mapping[str, ArrayLike],
    history: ArrayLike | Mapping[str, ArrayLike],
    steps: Sequence[int],
    data_seeds: Sequence[int],
    seeds: Sequence[int],
    tail: Mapping[str, ArrayLike] | None = None,
) -> Path:
    """Write `activation.npz`: last, best `[P, R, M]`, history `[E, P, R, M]`, steps `[E]` and seeds `[P]`.

    `tail` holds the evaluations of "tail" `[E, P, R, M]` by place. For a model with several routed layers,
    all matrices are given by place.
    """
    arrays: dict[str, Any] = {"steps": steps, "data_seeds": data_seeds, "seeds": seeds}
    for name, values in zip((*MATRICES, TAIL), (last, best, history, tail or {}), strict=True):
        by_place = values if isinstance(values, Mapping) else {"": values}
        arrays |= {at_place(name, place): matrices for place, matrices in by_place.items()}
    return save_activations(folder, arrays)


def save_activations(folder: str | os.PathLike[str], arrays: Mapping[str, Any]) -> Path:
    """Write arrays by name, as `read_activations` returns them."""
    path = Path(folder, ACTIVATION)
    types = {name: np.int64 if name in NUMBERS else np.float32 for name in arrays}
    typed: dict[str, Any] = {name: np.asarray(values, types[name]) for name, values in arrays.items()}
    with atomic_path(path) as temporary:
        np.savez_compressed(temporary, **typed)
    return path


def read_activations(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays that `write_activations` wrote, in any precision; raise `ValueError` if invalid."""
    path = Path(folder, ACTIVATION)
    try:
        with regular_file(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            check_ratio(path, file.zip.infolist())
            places = [name.removeprefix("last") for name in file.files if name.split("_")[0] == "last"]
            names = [*(m + end for end in places for m in MATRICES), *NUMBERS]
            names += [TAIL + end for end in places if TAIL + end in file.files]
            return {name: file[name] for name in names}
    except (*UNREADABLE, KeyError, RuntimeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Remove its folder and run the cell again."
        ) from error


MANIFEST = "manifest.json"
#: the files that tables and figures need: no models
READ = (CONFIG, RESULTS, HISTORY, ACTIVATION, CORRECTIONS)
CHECKSUM, DIGEST = "blake2b", "digest"


def write_manifest(folder: Path, but: Iterable[Path] = (), version: str = __version__) -> None:
    """Record the files of a finished cell, except those in `but`, and its members that diverged."""
    left_out = {folder / MANIFEST, *but}
    files: dict[str, dict[str, Any]] = {}
    for path in sorted(parent / name for parent, _, names in walk(folder) for name in names):
        if path.is_file() and path not in left_out:
            name = path.relative_to(folder).as_posix()
            files[name] = {"size": path.stat().st_size}
            if name in READ:
                files[name][CHECKSUM] = _checksum(path)
    record = {"version": version, "diverged": diverged(folder), "files": files}
    write_text(folder / MANIFEST, json.dumps({**record, DIGEST: science_hash(record)}, indent=1))


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's dict; empty if the file is absent or unreadable."""
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def damage_of(folder: Path, weights: bool = True) -> str:
    """Return what differs from the manifest of a finished cell, in a few words; "" if nothing does.

    Without `weights`, missing weights are not damage: some users copy without them.
    """
    if not (folder / MANIFEST).exists():
        return f"{MANIFEST} is missing"
    record = read_json(folder / MANIFEST)
    try:
        if record.pop(DIGEST, None) == science_hash(record):
            return _difference(folder, record["files"], weights)
    except (AttributeError, KeyError, TypeError, ValueError, OSError):  # the list was edited
        pass
    return f"{MANIFEST} was changed after it was written"


def _difference(folder: Path, files: dict[str, Any], weights: bool) -> str:
    if not {CONFIG, RESULTS} <= set(files):
        raise ValueError(f"{MANIFEST} lacks files that every finished cell has")
    for name in {*files, *(name for name in READ if (folder / name).exists())}:
        path = folder / name
        if name not in files:
            return f"{name} is not one of its files"
        if not path.is_file():
            if name in READ or weights:
                return f"{name} is missing"
        elif path.stat().st_size != files[name]["size"]:
            return f"the size of {name} changed after it was written"
        elif name in READ and _checksum(path) != files[name][CHECKSUM]:
            return f"the content of {name} changed after it was written"
    return ""


def diverged(folder: Path) -> list[dict[str, int]]:
    """Return the members of a cell with numbers that are not finite: data_seed, seed and first step."""
    path = folder / HISTORY
    if not path.exists():
        return []
    frame = read_values(path)
    if not set(HISTORY_COLUMNS) <= set(frame):
        return []
    # Every setting has "loss"; other measures may lack a value for good reasons. A loss may be NaN while the
    # weights are still finite, and is known at evaluations only
    no_number = (frame["measure"] == "loss") & ~np.isfinite(frame["value"])
    lost = frame[no_number | (frame["measure"] == DIVERGED)]
    first = lost.groupby(["data_seed", "seed"])["step"].min()
    return [{"data_seed": int(d), "seed": int(s), "step": int(step)} for (d, s), step in first.items()]


def _checksum(path: Path) -> str:
    with regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
