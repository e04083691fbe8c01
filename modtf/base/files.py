"""Files that are either complete or absent."""

import contextlib
import errno
import fcntl
import gzip
import os
import shutil
import socket
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import Any

from modtf.base.checks import check_path

#: errors that NumPy raises on a damaged file: MemoryError if a header claims too much
UNREADABLE = (OSError, EOFError, ValueError, MemoryError, zipfile.BadZipFile, zlib.error)
FULL = (errno.ENOSPC, errno.EDQUOT)  # not a fault of the name: a retry may succeed
RECORD = ".written"  # the names of the files of a report, in its folder
_written: ContextVar[set[Path] | None] = ContextVar("written", default=None)  # by a block of `replacing`
TEMPORARY = " in the folder of temporary files, which TMPDIR chooses"
WRITING = ".writing-"  # the prefix of temporary files and folders
RATIO, LARGE = 500, 1 << 28  # a file may unpack to this multiple of its size, or to this many bytes
LARGEST = 8 << 30  # bytes of a file that is read as a whole, or of an archive, unpacked
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # starts of texts that a spreadsheet takes for a formula


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path with the same file name, which becomes `path` if the block succeeds.

    The content reaches the disk before the name does, so an existing file is complete even after a power cut.
    """
    path = Path(path)
    with _naming(path, path.parent / WRITING):
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(path.parent) as folder:  # a lock on the file itself would keep HDF5 out
            temporary = folder / path.name
            yield temporary
            flush(temporary)
            os.replace(temporary, path)
            if (written := _written.get()) is not None:
                written.add(path)
            with contextlib.suppress(OSError):  # unsupported by some file systems; the content is safe
                flush(path.parent)


@contextmanager
def replacing(out: Path, *folders: str) -> Iterator[None]:
    """Remove the files of an earlier block in `folders` that this block does not write.

    The file `.written` in `out` lists what blocks wrote by `atomic_path`. Other files stay. If the block
    fails, nothing is removed.

    Args:
        out: the folder of a report.
        folders: those in `out` that this report writes to; "" is `out` itself.
    """
    written: set[Path] = set()
    token = _written.set(written)
    try:
        yield
    finally:
        _written.reset(token)
    names = {str(PurePosixPath(folder, path.name)) for path in written for folder in folders
             if path.parent == out / folder}  # fmt: skip
    record, places = out / RECORD, set(map(PurePosixPath, folders))
    before = set(read_text(record).splitlines() if record.is_file() else ())
    earlier = {name for name in before if PurePosixPath(name).parent in places}
    for name in earlier - names:
        if (out / name).is_file():
            (out / name).unlink()
    write_text(record, "\n".join(sorted(before - earlier | names)) + "\n")


@contextmanager
def _naming(path: Path, prefix: Path, where: str = "") -> Iterator[None]:
    """Name the path in an error of the operating system that names no file, or one that starts with `prefix`.

    The reason of the error ends with `where`.
    """
    try:
        yield
    except OSError as error:
        is_named = error.filename is not None and not str(error.filename).startswith(str(prefix))
        if error.errno is None or is_named:
            raise
        raise OSError(error.errno, f"{error.strerror}{where}", str(path)) from error


@contextmanager
def scratch_folder(where: str | Path | None = None) -> Iterator[Path]:
    """Yield a folder, by default among temporary files, that is removed after the block.

    Its lock ends with its process. Folders that killed processes left on this machine are removed. An error
    of the operating system says that a folder among temporary files is one.
    """
    if where is None:
        where = Path(tempfile.gettempdir())
        with _naming(where, where / WRITING, TEMPORARY), scratch_folder(where) as folder:
            yield folder
        return
    where = Path(where)
    prefix = f"{WRITING}{socket.gethostname()}-"
    for left in where.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            handle = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)
    folder, handle = _locked_folder(where, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _locked_folder(where: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder, and the handle that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
        with contextlib.suppress(FileNotFoundError):  # another process removed it before it was locked
            handle = os.open(folder, os.O_RDONLY)
            with contextlib.suppress(OSError):  # unsupported by some file systems
                fcntl.flock(handle, fcntl.LOCK_EX)
            if folder.exists():
                return folder, handle
            os.close(handle)


def check_writable(folder: str | Path, name: str = "out") -> Path:
    """Return `folder`. Raise `ValueError` if it cannot be written, `OSError` if a disk is full.

    The check leaves nothing behind. The error refers to the folder by `name`.
    """
    check_path(name, folder)
    _check_open(Path(folder), f"{name}={folder}")
    return Path(folder)


def check_file_writable(path: str | Path, name: str) -> Path:
    """Return `path`. Raise `ValueError` if a file cannot be written there; see `check_writable`."""
    check_path(name, path)
    if Path(path).is_dir():
        raise ValueError(f"{name}={path} is a folder; expected a file's name.")
    _check_open(Path(path).absolute().parent, f"{name}={path}")
    return Path(path)


def _check_open(folder: Path, what: str) -> None:
    existing = next(p for p in [folder, *folder.absolute().parents] if os.path.lexists(p))
    try:
        with (
            _naming(folder, existing / WRITING),
            scratch_folder(existing),
        ):  # permissions say nothing about a superuser
            return
    except OSError as error:
        if error.errno in FULL:
            raise
        raise ValueError(
            f"{what} cannot be written: {existing} is not a folder that can be written to "
            f"({error.strerror}). Choose another folder."
        ) from error


def is_pipe(path: str | Path) -> bool:
    """Return whether a path is a named pipe, where opening blocks until another process writes."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def regular_file(path: str | os.PathLike[str], most: float = LARGEST) -> Path:
    """Return the path of a file to read. Everything that comes from outside passes here before it is opened.

    Args:
        path: a file in a folder of results, an archive, a model or a file with routing.
        most: limit on its bytes.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is a pipe, a device or a folder, or larger: reading it could block for ever or fill
            the memory.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is a pipe, a device or a folder; expected a regular file.")
    if status.st_size > most:
        raise ValueError(f"{path} has {status.st_size:,} bytes; expected at most {most:,}.")
    return Path(path)


def read_text(path: str | Path, most: float = LARGE) -> str:
    """Return the text of a file; see `regular_file`."""
    return regular_file(path, most).read_text(encoding="utf-8")


def walk(folder: str | Path, *, followlinks: bool = False) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder with the names of its folders and files, like `os.walk`, without unfinished files.

    Folders that another process removes in the meantime are left out.
    """
    for parent, folders, files in os.walk(folder, followlinks=followlinks):
        folders[:] = sorted(name for name in folders if not name.startswith(WRITING))
        yield Path(parent), folders, files


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished files of killed processes in a folder that no process writes to."""
    for path in folder.glob(f"{WRITING}*"):
        shutil.rmtree(path, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_csv(path: str | Path, frame: Any) -> None:
    """Write a data frame as a CSV file, atomically; compressed, if its name ends in ".gz"."""
    text = frame.to_csv(index=False).encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(text, mtime=0) if str(path).endswith(".gz") else text)


def write_table(path: str | Path, frame: Any) -> None:
    """Write a data frame with texts from outside, such as labels of tokens, as a CSV file, atomically.

    An apostrophe precedes texts, including those of the header, that a spreadsheet would take for a formula.
    Numbers, including those in texts, are unchanged.
    """
    texts = [name for name in frame if frame[name].dtype.kind not in "biufcmM"]
    safe = frame.assign(**{name: frame[name].astype(object).map(_as_text) for name in texts})
    write_csv(path, safe.rename(columns=_as_text))


def _as_text(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def check_ratio(path: str | Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Raise `ValueError` if entries of a zip file claim to unpack to more than results ever do."""
    check_size(path, *(sum(getattr(e, name) for e in entries) for name in ("compress_size", "file_size")))


def check_gzip(path: str | Path) -> None:
    """Raise `ValueError` if a gzip file unpacks to more than results ever do."""
    packed, size = os.stat(path).st_size, 0
    with gzip.open(path) as file:
        while part := file.read(1 << 20):
            check_size(path, packed, size := size + len(part))


def check_size(path: str | Path, packed: int, size: int) -> None:
    """Raise `ValueError` if a file of `packed` bytes claims to hold more than results ever do."""
    if size > max(LARGE, RATIO * packed):
        raise ValueError(
            f"{path} would unpack from {packed:,} to {size:,} bytes, which is more than {LARGE >> 20} MiB "
            f"and more than {RATIO} times its size. If that is right, unpack it yourself."
        )
