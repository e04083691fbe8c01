"""Checkpoints: arrays in a file with zip checksums."""

import fnmatch
import io
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from modtf.base.files import atomic_path, regular_file, walk

Arrays = dict[str, np.ndarray]


class DamagedError(ValueError):
    """A file whose contents differ from those that were written."""


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the complete file to disk, in place of the one before."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ValueError(f"{name} is an array of objects; expected numbers or text.")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load(path: Path) -> Arrays | None:
    """Return the arrays of a checkpoint; None if there is none, or if it is damaged.

    A damaged file is removed, and a line about it printed.
    """
    if not path.exists():
        return None
    try:
        return _read(path)
    except DamagedError as error:
        path.unlink(missing_ok=True)
        print(f"{error}. Training starts from the beginning.")
        return None


def checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints of a cell: of every stage and member."""
    return sorted(
        parent / name
        for parent, _, files in walk(folder)
        for name in fnmatch.filter(files, "checkpoint*.npz")
    )


def remove_checkpoints(folder: Path) -> None:
    for path in checkpoints(folder):
        path.unlink(missing_ok=True)  # another process may have removed it


def _read(path: Path) -> Arrays:
    content = regular_file(path, math.inf).read_bytes()  # its errors mean no damage: the file must stay
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as saved:
            return dict(saved)
    except MemoryError:
        raise
    except Exception as error:  # zipfile and NumPy raise many errors on a flipped bit
        raise DamagedError(f"The checkpoint {path} is damaged or from another version of modtf") from error
