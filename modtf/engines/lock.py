"""One process works on a cell at a time: by a lock of the operating system, which ends with its process.

The lock OUT/.modtf/locks/CELL.lock lies outside of the cell's folder and is never removed: whoever waited for
a file that is gone would hold nothing. Beside it stands, while it is held, who holds it.
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

from modtf.files import write_text
from modtf.results.schema import PRIVATE

PATIENCE = 0.3  # seconds that a lock is waited for: others take it for less, to see whether they can
UNKNOWN = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # a file system that has no locks
NO_LOCKS = "{} is on a file system where files cannot be locked, so that two processes might run one cell. "
NO_LOCKS += "Choose a folder on another as --out."


class HeldError(ValueError):
    """Another process works on the cell."""


class NoLocksError(ValueError):
    """Files cannot be locked where the study lies."""


@contextmanager
def held(out: str | Path, name: str, *, wait: bool = False) -> Iterator[None]:
    """Within, nobody else works on the cell in the folder `name` of a study: no process, no other thread.

    Raises `HeldError`, which says who does, unless told to `wait`; `NoLocksError` where the file system has
    no locks: filelock's substitute outlives a killed process.
    """
    path = Path(out, PRIVATE, "locks", name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    holder, lock = path.with_suffix(".txt"), FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=-1 if wait else PATIENCE)
    except Timeout:
        who = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
        raise HeldError(
            f"{Path(out, name)} is being worked on by {who}. Wait for its end (run --wait), or choose "
            "another --out."
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


def is_held(out: str | Path, name: str) -> bool:
    """Return whether a process works on a cell."""
    try:
        with held(out, name):
            return False
    except HeldError:
        return True


def remove_left(out: str | Path, name: str = "*") -> None:
    """Remove what says who works on a cell, where a kill left it and nobody does."""
    for holder in Path(out, PRIVATE, "locks").glob(f"{name}.txt"):
        with contextlib.suppress(NoLocksError, OSError):  # such as a folder that is only for reading
            is_held(out, holder.stem)  # takes the lock if it is free, and leaves nothing


def this_process() -> str:
    """Its number and machine, for people to read."""
    return f"process {os.getpid()} on {socket.gethostname()}"
