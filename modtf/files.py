"""Files that are either whole or absent."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modtf.checks import check_path

FULL = (errno.ENOSPC, errno.EDQUOT)  # no fault of a name: what is tried again may succeed
WRITING = ".writing-"  # how the names of temporary files begin


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Gives a temporary path of the same suffixes, which becomes `path` if the block succeeds.

    The content reaches the disk before the name does, so a file that exists is whole even after a power cut.

    Example:
        >>> with atomic_path("results.csv") as temporary:
        ...     frame.to_csv(temporary)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=WRITING, suffix="".join(path.suffixes), dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        flush(temporary)
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)  # mkstemp lets nobody else read
        os.replace(temporary, path)
        with contextlib.suppress(OSError):  # some file systems cannot; the content is safe
            flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(folder: str | Path, name: str = "out") -> Path:
    """Returns `folder`; raises `ValueError` where it cannot be written, `OSError` where a disk is full.

    Leaves nothing behind; the error speaks of it by `name`.
    """
    check_path(name, folder)
    _check_open(Path(folder), f"{name}={folder}")
    return Path(folder)


def check_file_writable(path: str | Path, name: str) -> Path:
    """Returns `path`; raises `ValueError` where a file cannot be written there; see `check_writable`."""
    check_path(name, path)
    if Path(path).is_dir():
        raise ValueError(f"{name}={path} is a folder; give the name of a file.")
    _check_open(Path(path).absolute().parent, f"{name}={path}")
    return Path(path)


def _check_open(folder: Path, what: str) -> None:
    existing = next(p for p in [folder, *folder.absolute().parents] if os.path.lexists(p))
    try:
        with tempfile.TemporaryDirectory(dir=existing):  # a superuser's permissions do not tell
            return
    except OSError as error:
        if error.errno in FULL:
            raise
        raise ValueError(
            f"{what} cannot be written: {existing} is not a folder open for writing ({error.strerror}). "
            "Choose another place."
        ) from error


def flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Removes what killed processes were writing in a folder; nobody else may be writing there."""
    for path in folder.glob(f"{WRITING}*"):
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes a text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
