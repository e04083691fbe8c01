"""The files of a finished cell: their columns, and how they are written. Training writes, reports read."""

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from modtf.cell import VARIANTS as VARIANTS
from modtf.files import atomic_path, write_text

RESULTS = "results.csv"  # its presence means that the cell is finished
HISTORY = "history.csv"
#: a measure of the history: 1 at the step after which a member's weights were no numbers
DIVERGED = "diverged"
CONFIG = "config.json"  # `Cell.to_dict()`, "version" and "provenance": what ran it last
ACTIVATION = "activation.npz"
ACTIVATION_ARRAYS = ("last", "best", "history", "steps", "data_seeds", "seeds")
PRIVATE = ".modtf"  # in a study's folder: cells that are worked on or were set aside, leases, logs

#: tail: mean over the last evaluations of training; last: after the last step; best: of the smallest
#: validation loss, in classification of the highest validation accuracy
CHECKPOINTS = ("tail", "last", "best")

KIND = ("arch", "setting", "task_options")  # results of different kinds are never in one unit
CELL = (*KIND, "num_rules", "width", "variant", "model_options")
MEMBER = (*CELL, "data_seed", "seed")
SCORE = ("checkpoint", "measure", "condition")

# Options stand as text, "search=v2" or "modules=16,temperature=2", and are "" where there are none.
COLUMNS: Mapping[str, str] = {
    "arch": "str",
    "setting": "str",
    "task_options": "str",
    "num_rules": "int64",
    "num_modules": "int64",
    "width": "int64",
    "variant": "str",
    "model_options": "str",
    "data_seed": "int64",
    "seed": "int64",
    "num_parameters": "int64",
    "steps": "int64",
    "checkpoint": "str",
    "measure": "str",
    "condition": "str",
    "value": "float64",
}
HISTORY_COLUMNS: Mapping[str, str] = {
    "step": "int64",
    "data_seed": "int64",
    "seed": "int64",
    "measure": "str",
    "condition": "str",
    "value": "float64",
}
NOT_KEYS = (
    "value",
    "num_modules",
    "num_parameters",
    "steps",
)  # two rows of one model may not differ in these


def conform(
    frame: pd.DataFrame, columns: Mapping[str, str] = COLUMNS, source: str = "The table"
) -> pd.DataFrame:
    """The frame with exactly `columns`, in their order and with their dtypes.

    Args:
        frame: one row per member, measure and condition; missing options count as none.
        columns: `COLUMNS` or `HISTORY_COLUMNS`.
        source: what the frame is, for errors.

    Raises:
        ValueError: if a column is missing or unknown, a value does not fit its dtype, or two rows speak of
            the same thing.
    """
    missing, unknown = [c for c in columns if c not in frame], [c for c in frame if c not in columns]
    if missing or unknown:
        raise ValueError(
            f"{source} does not have the columns of modtf's results: missing {', '.join(missing) or 'none'}; "
            f"unknown {', '.join(map(str, unknown)) or 'none'}. Expected {', '.join(columns)}."
        )
    frame = frame[list(columns)].reset_index(drop=True)
    options = [name for name in ("task_options", "model_options") if name in columns]
    frame = frame.assign(**{name: frame[name].astype(object).fillna("") for name in options})
    try:
        frame = frame.astype(dict(columns))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source} holds a value of the wrong kind: {error}") from error
    key = [c for c in columns if c not in NOT_KEYS]
    repeated = frame[frame.duplicated(key)]
    if len(repeated):
        raise ValueError(
            f"{source} gives {len(repeated)} value(s) twice, first for {repeated.iloc[0][key].to_dict()}. "
            "Every member and measure may stand there once."
        )
    return frame


def write_results(folder: str | os.PathLike[str], frame: pd.DataFrame) -> Path:
    """Writes `results.csv`, all at once: a reader sees the whole file or none.

    Args:
        folder: the cell's folder; it must exist.
        frame: one row per member, checkpoint, measure and condition, with `COLUMNS`. Measures of the
            activation matrix, and what concerns training, such as "seconds", stand under the condition "iid".

    Raises:
        ValueError: see `conform`.
    """
    path = Path(folder, RESULTS)
    write_text(path, conform(frame, COLUMNS, str(path)).to_csv(index=False))
    return path


def write_history(folder: str | os.PathLike[str], frame: pd.DataFrame) -> Path:
    """Writes `history.csv` with `HISTORY_COLUMNS`, as `write_results` does."""
    path = Path(folder, HISTORY)
    write_text(path, conform(frame, HISTORY_COLUMNS, str(path)).to_csv(index=False))
    return path


def write_activations(
    folder: str | os.PathLike[str],
    *,
    last: ArrayLike,
    best: ArrayLike,
    history: ArrayLike,
    steps: Sequence[int],
    data_seeds: Sequence[int],
    seeds: Sequence[int],
) -> Path:
    """Writes `activation.npz`: last, best `[P, R, M]`, history `[E, P, R, M]`, steps `[E]`, seeds `[P]`."""
    path = Path(folder, ACTIVATION)
    with atomic_path(path) as temporary:
        np.savez_compressed(
            temporary,
            last=np.asarray(last, np.float32),
            best=np.asarray(best, np.float32),
            history=np.asarray(history, np.float32),
            steps=np.asarray(steps, np.int64),
            data_seeds=np.asarray(data_seeds, np.int64),
            seeds=np.asarray(seeds, np.int64),
        )
    return path


def read_activations(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays that `write_activations` wrote, in whatever precision.

    Raises:
        ValueError: if the file cannot be read.
    """
    path = Path(folder, ACTIVATION)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in ACTIVATION_ARRAYS}
    except (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Remove its folder and run the cell again."
        ) from error
