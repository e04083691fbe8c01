"""Labels and documents that come as names."""

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.tokens.checks import Ints, check_labels


class Numbers:
    """Numbers for names, in the order in which chunks bring them; integers stay as they are.

    Args:
        what: "labels" or "documents", for errors.

    Example:
        >>> numbers = Numbers("labels")
        >>> numbers.of(["law", "code"], 2).tolist(), numbers.of(["verse", "law"], 2).tolist()
        ([1, 0], [2, 1])
        >>> list(numbers.names)
        ['code', 'law', 'verse']
    """

    def __init__(self, what: str):
        self.what = what
        self.names: dict[str, int] = {}
        self._named: bool | None = None

    def of(self, values: ArrayLike, num_tokens: int) -> Ints:
        """`[tokens]`; raises `ValueError` where these are neither, or chunks differ in it."""
        try:
            array = np.asarray(values)
        except ValueError:
            return check_labels(values, num_tokens, self.what)  # says what is wrong
        named = array.dtype.kind in "US" and not isinstance(values, np.ma.MaskedArray)
        if array.size:
            if self._named not in (None, named):
                raise ValueError(f"Some chunks came with {self.what} that are names and some with numbers.")
            self._named = named
        if not named:
            return check_labels(values, num_tokens, self.what)
        found, inverse = np.unique(array.astype(str), return_inverse=True)
        numbers = np.array([self.names.setdefault(str(word), len(self.names)) for word in found], np.int64)
        return check_labels(numbers[inverse].reshape(array.shape), num_tokens, self.what)
