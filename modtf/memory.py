"""What a request needs in memory, and what there is: what cannot fit is refused before any work.

Needs are counted from below: only what is certainly held at one time. So what would fit is never refused;
what is a little too large is not noticed here.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from modtf.population import Population
from modtf.task import Task

FLOAT = 4  # bytes of a number
ACCELERATOR = 192 << 30  # bytes of the largest accelerator there is; its own are known only to TensorFlow
UNLIMITED = 1 << 60  # a limit above it is none
MEMBER = 200  # bytes of Python that stand for a member, whatever its model


@cache
def memory_here() -> int:
    """Bytes that a process may take here: of this machine, less where a container is allowed less.

    What other processes hold just now is not subtracted. Where there are accelerators, theirs count too.
    """
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + _swap()
    except (AttributeError, OSError, ValueError):
        return UNLIMITED  # a system that does not say
    accelerators = len([*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("accel[0-9]*")])
    return min([whole, *_container_limits()]) + accelerators * ACCELERATOR


def check_fits(what: str, parts: Mapping[str, int], mend: str) -> None:
    """Raises `ValueError` where the parts, in bytes, need more memory than there is.

    Args:
        what: is asked for.
        parts: what in it needs memory -> bytes, from below.
        mend: what to do instead.

    Example:
        >>> check_fits("width=32", {"parameters": 1 << 70}, "Take a smaller width.")
        Traceback (most recent call last):
        ValueError: width=32 cannot fit ...
    """
    needed, there = sum(parts.values()), memory_here()
    if needed > there:
        largest = sorted(parts.items(), key=lambda part: -part[1])
        shown = ", ".join(f"{name} {_text(size)}" for name, size in largest if size * 100 > needed)
        raise ValueError(
            f"{what} cannot fit: it needs at least {_text(needed)} of memory ({shown}), and there are "
            f"{_text(there)}. {mend}"
        )


def batch_bytes(task: Task, members: int, batch_size: int, num_tokens: int | None = None) -> int:
    """Of one batch of a population's data: inputs, rules and targets.

    Args:
        num_tokens: of an example; that of training by default.
    """
    tokens = batch_size * (num_tokens or task.family.num_training_tokens)
    return FLOAT * members * tokens * (task.token_width + 1 + (task.target_width or 1))


def check_batches(population: Population, batch_size: int, num_tokens: int) -> None:
    """Raises `ValueError` where not one batch of the population's data fits."""
    size = batch_bytes(population.task, len(population), batch_size, num_tokens)
    what = f"batch_size={batch_size} with {len(population)} members of {population.task.name}"
    what += f" and {num_tokens} tokens" if population.family.is_sequence else ""
    check_fits(what, {"one batch": size}, "Take smaller batches, shorter sequences or fewer members.")


def check_members(count: int, what: str) -> None:
    """Raises `ValueError` where not even the list of so many members fits."""
    check_fits(what, {f"{count:,} members": MEMBER * count}, "Take fewer members.")


def _swap() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("SwapTotal:")), 0)


def _container_limits() -> list[int]:
    """Of the control groups that this process is in, and of those around them (Linux)."""
    found = []
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in groups:
        _, controllers, place = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base = Path("/sys/fs/cgroup", "memory" if controllers else "")
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        inner = base / place.strip("/")
        for folder in [inner, *inner.parents]:
            try:
                found.append(int((folder / name).read_text(encoding="utf-8")))
            except (OSError, ValueError):  # "max", or not seen from inside
                continue
    return [limit for limit in found if 0 < limit < UNLIMITED]


def _text(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 1e15 else f"{size / 1e9:.3g} GB"
