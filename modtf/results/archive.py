"""The results of many cells in one small file that reports read, for a supplement or a colleague."""

import atexit
import contextlib
import io
import lzma
import os
import shutil
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.files import LARGEST, atomic_path, check_ratio, regular_file, scratch_folder
from modtf.base.version import __version__
from modtf.base.words import plural
from modtf.results.schema import ACTIVATION, CONFIG, MANIFEST, READ, read_activations, write_manifest

if TYPE_CHECKING:
    from modtf.results.cells import CellFolder

SUFFIX = ".zip"
FILES = (*READ, MANIFEST)
PARTS = 2048  # parts of 1: float16 holds all multiples of 1/2048 from 0 to 1
DAMAGED = (zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, RuntimeError, OSError)
TIME = (1980, 1, 1, 0, 0, 0)  # the date of every file, so that equal results give equal bytes


def write_archive(cells: "Sequence[CellFolder]", path: str | Path) -> None:
    """Write the results, histories and activation matrices of finished cells as one ".zip", and the configs
    of the others, so that reports of the archive list them as missing.

    Matrices are rounded to whole 2048ths, which makes them six times smaller: see `apportion`. Raise
    `ValueError` on another suffix, if no cell is finished, or if matrices cannot be read.
    """
    check_archive_name("path", path)
    if not any(cell.is_finished for cell in cells):
        number = plural(len(cells), "cell")
        raise ValueError(f"None of the {number} is finished, so there is nothing to archive.")
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_LZMA) as archive:
        taken: Counter[str] = Counter()
        for cell in cells:
            taken[cell.path.name] += 1
            again = taken[cell.path.name]  # cells of two folders may share a name
            folder = cell.path.name + (f"~{again}" if again > 1 else "")
            for name, content in _contents(cell).items():
                entry = zipfile.ZipInfo(f"{folder}/{name}", TIME)
                entry.compress_type = zipfile.ZIP_LZMA
                archive.writestr(entry, content)


def _contents(cell: "CellFolder") -> dict[str, bytes]:
    """Return the archived files of a cell, with a manifest of these files only; if it is not finished, its
    config alone."""
    if not cell.is_finished:
        return {CONFIG: regular_file(cell.path / CONFIG).read_bytes()} if cell.config else {}
    with scratch_folder() as folder:
        for name in READ:
            if name == ACTIVATION and cell.has_activation:
                (folder / name).write_bytes(compact(read_activations(cell.path)))
            elif (cell.path / name).is_file():
                shutil.copyfile(cell.path / name, folder / name)
        write_manifest(folder, version=str(cell.config.get("version", __version__)))
        return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}


def check_archive_name(name: str, path: str | Path) -> None:
    """Raise `ValueError` unless a path has the suffix of archives."""
    if Path(path).suffix != SUFFIX:
        raise ValueError(f"{name}={str(path)!r} is not valid; expected a file name that ends in {SUFFIX}.")


def unpacked(path: str | Path) -> Path:
    """Return a folder with the cells of an archive; it is removed when this process ends.

    Raise `ValueError` if the file is not an archive of results, or unpacks to more than 8 GiB.
    """
    status = regular_file(path).stat()
    return _unpack(os.path.realpath(path), status.st_mtime_ns, status.st_size)


@lru_cache(None)
def _unpack(path: str, *version: int) -> Path:
    what = f"{path} is not an archive of results that modtf report --archive wrote"
    kept = contextlib.ExitStack()
    atexit.register(kept.close)
    folder = kept.enter_context(scratch_folder()) / os.path.basename(path)  # messages name it
    folder.mkdir()
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > LARGEST:
                raise ValueError(
                    f"{path} holds more than {LARGEST >> 30} GiB. Unpack it yourself, and give the folder."
                )
            check_ratio(path, entries)
            for entry in entries:
                cell, _, name = entry.filename.partition("/")
                if name not in FILES or cell in ("", ".", "..") or {"/", "\\", "\0"} & set(cell):
                    raise ValueError(f"{what}: it holds {entry.filename!r}.")
                target = folder / cell / name
                target.parent.mkdir(exist_ok=True)
                with archive.open(entry) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file)
    except DAMAGED as error:
        raise ValueError(f"{what} ({error}).") from error
    return folder


def apportion(shares: ArrayLike) -> NDArray[np.float64]:
    """Round shares `[..., M]` with sum 1 to whole 2048ths, by largest remainders (Hamilton's method).

    The sum stays the same. Rounded shares and NaN do not change.
    """
    exact = np.asarray(shares, np.float64) * PARTS
    whole = np.floor(exact)
    missing = PARTS - whole.sum(axis=-1, keepdims=True)
    place = np.argsort(np.argsort(whole - exact, axis=-1, kind="stable"), axis=-1)  # 0: largest remainder
    return (whole + (place < missing)) / PARTS


def compact(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the arrays as the bytes of an uncompressed `activation.npz`, with matrices rounded by
    `apportion`."""
    file = io.BytesIO()
    rounded = {
        name: apportion(array).astype(np.float16) if np.issubdtype(array.dtype, np.floating) else array
        for name, array in arrays.items()
    }
    np.savez(file, allow_pickle=False, **rounded)
    return file.getvalue()
