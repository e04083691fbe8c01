"""A lock of the operating system for each cell: one process works on it at a time.

The lock ends with its process. Its file OUT/.modtf/locks/CELL.lock lies outside the cell's folder and is
never removed: a process that waited for a removed file would lock nothing. A text file names the holder.
"""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from modtf.base.files import read_text, write_text
from modtf.results.schema import PRIVATE

PATIENCE = 0.3  # seconds to wait for a lock: `is_locked` of another process takes it for less
UNKNOWN = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # the file system has no locks
NO_LOCKS = "{} is on a file system that cannot lock files, so two processes might run the same cell. "
NO_LOCKS += "Choose a folder on another file system as --out."


class LockedError(ValueError):
    """Another process works on the cell."""


class NoLocksError(ValueError):
    """The study's file system does not support locks."""


@contextmanager
def locked(out: str | Path, name: str, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of the cell in folder `name` of a study against all other processes and threads.

    Raises `LockedError`, which names the holder, unless `wait` is set; `NoLocksError` if the file system has
    no locks: filelock's substitute outlives a killed process.
    """
    path = Path(out, PRIVATE, "locks", name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    holder, lock = path.with_suffix(".txt"), FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=-1 if wait else PATIENCE)
    except Timeout:
        who = "another process"
        with contextlib.suppress(OSError, ValueError):
            who = read_text(holder)
        raise LockedError(
            f"{Path(out, name)} is in use by {who}. Wait until it ends (run --wait), or choose another --out."
        ) from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in UNKNOWN:
            raise
        raise NoLocksError(NO_LOCKS.format(out)) from error
    try:
        if isinstance(lock, SoftFileLock):
            raise NoLocksError(NO_LOCKS.format(out))
        write_text(holder, f"{this_process()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        yield
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def is_locked(out: str | Path, name: str) -> bool:
    """Return whether a process works on a cell."""
    try:
        with locked(out, name):
            return False
    except LockedError:
        return True


def remove_left(out: str | Path, name: str = "*") -> None:
    """Remove the file that names a cell's holder, if a kill left it behind and nobody holds the cell."""
    for holder in Path(out, PRIVATE, "locks").glob(f"{name}.txt"):
        with contextlib.suppress(NoLocksError, OSError):  # such as a read-only folder
            is_locked(out, holder.stem)  # takes a free lock, and removes the file


def this_process() -> str:
    """Return this process's number and machine, for people to read."""
    return f"process {os.getpid()} on {socket.gethostname()}"
