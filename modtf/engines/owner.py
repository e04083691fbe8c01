"""Who a process is, and whether another one is dead for certain."""

import contextlib
import os
import socket
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Owner:
    """A process, told from all others on all machines."""

    machine: str  # name, boot and process namespace: where process ids mean the same
    pid: int
    started: str  # when, in the kernel's ticks: process ids are used again

    @classmethod
    def here(cls) -> "Owner":
        """This process."""
        return cls(_machine(), os.getpid(), _started(os.getpid()) or "")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Owner":
        return cls(str(values["machine"]), int(values["pid"]), str(values["started"]))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)

    @property
    def is_dead(self) -> bool:
        """Whether it is known to have ended. Of another machine's process that cannot be known."""
        if self.machine != _machine() or not self.started:
            return False
        return _started(self.pid) != self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.machine.partition(' ')[0]}"


@cache
def _machine() -> str:
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # not Linux: no process is known to be dead then
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _started(pid: int) -> str | None:
    """When a process of this machine started; None if there is none, or only what is left of one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
