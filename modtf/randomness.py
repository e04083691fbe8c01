"""The keys of all random numbers: 64 bits per (task, split, seed, purpose)."""

from typing import Any

from modtf.task import Task, science_hash


def random_key(task: Task, seed: int, *purpose: Any) -> int:
    """Return a signed 64-bit key for a counter-based generator (Philox).

    Different tasks, seeds, splits or purposes have different keys (blake2b), so no two streams share a random
    number. The purpose is split and field for data, and "weights" and the path for weights.
    """
    digest = science_hash([task.identity(), seed, *purpose], digest_size=8)
    return int.from_bytes(bytes.fromhex(digest), "big", signed=True)
