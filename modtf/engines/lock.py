"""A lock of the operating system for each cell: one process works on it at a time.

The lock ends with its process. Its file OUT/.modtf/locks/CELL.lock lies outside the cell's folder and is
never removed: a process that waited for a removed file would lock nothing. A text file beside it names the
holder, and counts the steps of its cell.
"""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from modtf.base.files import read_text
from modtf.results.schema import PRIVATE

PATIENCE = 0.3  # seconds to wait for a lock: `is_locked` of another process takes it for less
EVERY = 0.5  # seconds between two counts of steps
UNKNOWN = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # the file system has no locks
NO_LOCKS = "{} is on a file system that cannot lock files, so two processes might run the same cell. "
NO_LOCKS += "Choose a folder on another file system as --out."

Report = Callable[[int], None]  # receives the number of finished steps of a cell


class StopError(ValueError):
    """The reason why no cell of a study can run, such as a full disk."""


class LockedError(ValueError):
    """Another process works on the cell."""


class NoLocksError(StopError):
    """The study's file system does not support locks."""


@contextmanager
def locked(out: str | Path, name: str, patience: float = PATIENCE) -> Iterator[Report]:
    """Hold the lock of the cell in folder `name` of a study against all other processes and threads.

    It waits `patience` seconds for the lock, without a limit if that is -1. It yields a function of finished
    steps, which `holders` then returns.

    Raises `LockedError`, which names the holder; `NoLocksError` if the file system has no locks: filelock's
    substitute outlives a killed process.
    """
    path = Path(out, PRIVATE, "locks", name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    holder, lock = path.with_suffix(".txt"), FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        who = "another process"
        with contextlib.suppress(OSError, ValueError):
            who = read_text(holder).partition("\n")[0]
        raise LockedError(
            f"{Path(out, name)} is in use by {who}. Wait until it ends (run --wait), or choose another --out."
        ) from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in UNKNOWN:
            raise
        raise NoLocksError(NO_LOCKS.format(out)) from error
    since, written = time.strftime("%Y-%m-%d %H:%M:%S"), 0.0

    def report(steps: int) -> None:
        nonlocal written
        if time.monotonic() - written > EVERY:
            written, new = time.monotonic(), holder.with_suffix(".new")
            with contextlib.suppress(OSError):  # such as a full disk, which the cell reports
                new.write_text(f"{this_process()} since {since}\n{steps}", encoding="utf-8")
                new.replace(holder)

    try:
        if isinstance(lock, SoftFileLock):
            raise NoLocksError(NO_LOCKS.format(out))
        report(0)
        yield report
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def holders(out: str | Path) -> dict[str, tuple[str, int]]:
    """Return which process works on a cell, and its finished steps, by the cell's folder.

    A killed process may still be listed.
    """
    known = {}
    for path in Path(out, PRIVATE, "locks").glob("*.txt"):
        with contextlib.suppress(OSError, ValueError):
            line, _, steps = read_text(path).partition("\n")
            known[path.stem] = line.partition(" since ")[0], int(steps or 0)
    return known


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


def this_process(process: int | None = None) -> str:
    """Return the number and machine of this process, or of another one of this machine, for people to
    read."""
    return f"process {process or os.getpid()} on {socket.gethostname()}"
