"""Who may work on what: leases in a folder that several processes and machines share."""

import json
import os
import secrets
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from modtf.engines.owner import Owner

STALE_AFTER = 180.0  # seconds without a heartbeat after which an owner is taken for dead; NFS caches for 60
BEATS = 9  # heartbeats in that time


class LostLeaseError(RuntimeError):
    """Another process has taken the work over, because this one gave no sign of life for too long."""


class Lease:
    """The right to work on something, kept up by a thread until it is released or lost.

    A lease is a file NAME.NUMBER that only one process can create; the highest number counts. Its time of
    change is the heartbeat, by the clock of the file system, so that clocks of machines may differ. A lease
    whose owner is dead, or silent for `stale_after` seconds, is taken over by creating the next number.

    The owner cannot know at every moment whether it has lost its lease (it may have been stopped just after
    it looked), so what it publishes must be fenced besides: see `modtf.engines.workplace`.

    Example:
        >>> lease = Lease.acquire("runs/.leases", "mlp_r8")  # doctest: +SKIP
        >>> if lease is not None:  # doctest: +SKIP
        ...     lease.release()
    """

    def __init__(
        self, path: Path, token: str, stale_after: float, on_lost: Callable[[], object] | None = None
    ):
        self.path, self.token = path, token
        self._stale_after, self._on_lost = stale_after, on_lost
        self._stop = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._beat, name=f"lease {path.name}", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls,
        folder: str | Path,
        name: str,
        *,
        stale_after: float = STALE_AFTER,
        on_lost: Callable[[], object] | None = None,
    ) -> "Lease | None":
        """The lease, or None while another process holds it.

        Args:
            folder: where leases stand; made if need be.
            name: of what is leased; a file name.
            stale_after: seconds; the same for all who share the folder.
            on_lost: called in the lease's thread when the lease is seen to be lost.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = _numbers(folder, name)
        if numbers and holder(folder, name, stale_after=stale_after) is not None:
            return None
        path = folder / f"{name}.{max(numbers, default=0) + 1}"
        token = secrets.token_hex(8)
        text = json.dumps({**Owner.here().to_dict(), "token": token})  # before there is a file to write it in
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return None
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
        except BaseException:  # the disk is full, or the process is to end: nobody shall wait for it
            path.unlink(missing_ok=True)
            raise
        if max(_numbers(folder, name)) > int(path.suffix[1:]):  # it was handed on while we looked
            path.unlink(missing_ok=True)
            return None
        for number in numbers:
            (folder / f"{name}.{number}").unlink(missing_ok=True)
        return cls(path, token, stale_after, on_lost)

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken the lease over; looks now."""
        if not self._lost:
            name, number = self.path.stem, int(self.path.suffix[1:])
            self._lost = max(_numbers(self.path.parent, name), default=0) != number
        return self._lost

    def release(self, *, for_good: bool = False) -> None:
        """Lets others have it.

        Args:
            for_good: nobody will need it again: nothing is left on disk.
        """
        self._stop.set()
        self._thread.join()
        if for_good or self.is_lost:
            self.path.unlink(missing_ok=True)
        else:
            # the number stays taken, so that a process that looked long ago cannot create it again
            # and it is written over what is there: a full disk has no room for it elsewhere
            with self.path.open("r+b") as file:
                file.write(json.dumps({"released": True}).encode().ljust(self.path.stat().st_size))

    def _beat(self) -> None:
        while not self._stop.wait(self._stale_after / BEATS):
            try:
                if not self.is_lost:
                    os.utime(self.path)
            except FileNotFoundError:
                self._lost = True
            except OSError:
                continue  # the file system is away; silence counts against us
            if self._lost:
                if self._on_lost is not None:
                    self._on_lost()
                return


def holder(folder: str | Path, name: str, *, stale_after: float = STALE_AFTER) -> str | None:
    """Who holds the lease, in words; None where it is free, released, or its owner dead or silent."""
    folder = Path(folder)
    numbers = _numbers(folder, name)
    if not numbers:
        return None
    try:
        with Path(folder, f"{name}.{max(numbers)}").open(encoding="utf-8") as file:  # opening asks the server
            changed, text = os.fstat(file.fileno()).st_mtime, file.read()
    except FileNotFoundError:
        return None
    try:
        values = json.loads(text)
        if values.get("released"):
            return None
        owner = Owner.from_dict(values)
    except (AttributeError, KeyError, TypeError, ValueError):
        owner = None  # it is being written, or its owner died in the middle of that
    if owner is not None and owner.is_dead:
        return None
    with tempfile.TemporaryFile(dir=folder) as probe:
        now = os.fstat(probe.fileno()).st_mtime
    if now - changed > stale_after:
        return None
    return str(owner) if owner is not None else "another process"


def _numbers(folder: Path, name: str) -> list[int]:
    """The numbers of the lease's files."""
    try:
        found = [entry.name for entry in os.scandir(folder) if entry.name.startswith(f"{name}.")]
    except FileNotFoundError:
        return []
    return sorted(int(suffix) for one in found if (suffix := one[len(name) + 1 :]).isdecimal())
