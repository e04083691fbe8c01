"""Arrays in a file with zip checksums; the previous file is kept next to it."""

import fnmatch
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from modtf.base.files import atomic_path, flush, regular_file, walk

Arrays = dict[str, np.ndarray]


class DamagedError(ValueError):
    """A file whose contents differ from those that were written."""


def previous(path: Path) -> Path:
    """Return the path of the file before `path`: "checkpoint.previous.npz"."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the complete file to disk, after which the old one moves to `previous(path)`."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ValueError(f"{name} is an array of objects; expected numbers or text.")
    with atomic_path(path) as temporary:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        flush(temporary)
        if path.exists():
            os.replace(path, previous(path))


def load(path: Path, say: Callable[[str], object] = print) -> Arrays | None:
    """Return the newest undamaged arrays; None if there are none.

    Damaged files are removed, so that no new file is kept next to one. `say` receives one line about them.
    """
    older = previous(path)
    if not path.exists() and not older.exists():
        return None
    problems = []
    for file in (path, older):
        try:
            arrays = _read(file)
        except DamagedError as error:
            problems.append(str(error))
        else:
            if problems:
                os.replace(older, path)
                say(f"{problems[0]}. Training resumes from the checkpoint before it.")
            return arrays
    path.unlink(missing_ok=True)
    older.unlink(missing_ok=True)
    say(f"{' and '.join(problems)}. Training starts from the beginning.")
    return None


def checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints of a cell: of every stage and member, with the previous ones."""
    return sorted(
        parent / name
        for parent, _, files in walk(folder)
        for name in fnmatch.filter(files, "checkpoint*.npz")
    )


def remove_checkpoints(folder: Path) -> None:
    for path in checkpoints(folder):
        path.unlink(missing_ok=True)  # another process may have removed it


def _read(path: Path) -> Arrays:
    try:
        content = regular_file(
            path
        ).read_bytes()  # any other `OSError` does not mean damage: the file must stay
    except FileNotFoundError as error:
        raise DamagedError(f"The checkpoint {path} is missing") from error
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as saved:
            return dict(saved)
    except MemoryError:
        raise
    except Exception as error:  # zipfile and NumPy raise many errors on a flipped bit
        raise DamagedError(f"The checkpoint {path} is damaged or from another version of modtf") from error
