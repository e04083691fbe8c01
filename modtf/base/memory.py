"""The memory that a request needs and the available memory. Requests that cannot fit are rejected at once."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ACCELERATOR = 192 << 30  # bytes of the largest accelerator; only TensorFlow knows the device's own


@cache
def memory_here() -> int:
    """Return the bytes of this machine's memory and of its accelerators', free or in use."""
    own = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    accelerators = len([*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("accel[0-9]*")])
    return own + accelerators * ACCELERATOR


def memory_of(process: int) -> int:
    """Return the bytes of main memory that a process holds; 0 where the system does not tell."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def check_fits(what: str, parts: Mapping[str, int], mend: str) -> None:
    """Raise `ValueError` if parts, name -> bytes, need more than the available memory."""
    needed, available = sum(parts.values()), memory_here()
    if needed > available:
        largest = sorted(parts.items(), key=lambda part: -part[1])
        shown = ", ".join(f"{name} {_text(size)}" for name, size in largest if size * 100 > needed)
        raise ValueError(
            f"{what} cannot fit: it needs at least {_text(needed)} of memory ({shown}), but only "
            f"{_text(available)} are available. {mend}"
        )


def _text(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 1e15 else f"{size / 1e9:.3g} GB"
