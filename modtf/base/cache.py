"""A cache of what later cells reuse, such as traced programs; see `modtf.evaluation.programs`."""

import math
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")


class Cache(dict[Hashable, Any]):
    """Objects by key, at most `most` of them: before another is made, the least recently used is released."""

    def __init__(self, most: float = math.inf):
        super().__init__()
        self.most = most

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the object of a key, which `make` makes if it is not kept."""
        value = self.pop(key, None)
        if value is None:
            while len(self) >= self.most:
                self.pop(next(iter(self)))
            value = make()
        self[key] = value
        return value
