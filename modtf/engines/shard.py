"""A part of a study, for the jobs of an array: no job needs to know of the others."""

import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shard_of(items: Sequence[T], shard: str) -> list[T]:
    """Every n-th item, from the i-th: small and large cells are spread evenly.

    Args:
        items: in an order that all jobs share.
        shard: "i/n", i from 0 to n-1.

    Raises:
        ValueError: if it is no such text.

    Example:
        >>> [shard_of("abcde", f"{i}/2") for i in range(2)]
        [['a', 'c', 'e'], ['b', 'd']]
    """
    found = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not found or not int(found[1]) < int(found[2]):
        raise ValueError(f"--shard={shard}: expected i/n, i from 0 to n-1: 0/8 is the first of 8.")
    return list(items[int(found[1]) :: int(found[2])])
