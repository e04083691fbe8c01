"""Number the documents of the tokens in forward passes, given or automatic, without collisions."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.measuring.tokens import Numbers

Ints = NDArray[np.int64]


class DocumentNumbers:
    """The numbers of documents, over all passes of one stream.

    Given integers are unchanged. Names are numbered in the order in which they first occur. A row without a
    given document gets the next free number.

    Attributes:
        number: the highest number so far, plus 1.

    Example:
        >>> numbers = DocumentNumbers()
        >>> numbers.assign(np.array([["law", "code"]])).tolist(), numbers.next(2).tolist()
        ([[0, 1]], [2, 3])
    """

    def __init__(self) -> None:
        self.number = 0
        self._numbers = Numbers("documents")
        self._automatic: list[list[int]] = []  # ranges [start, stop) of numbers that rows got
        self._seen: set[int] = set()
        self._last: int | None = None  # the document of the last token
        self._warned = False

    def next(self, rows: int) -> Ints:
        """Return new numbers for rows whose documents are not given."""
        numbers = self.number + np.arange(rows)
        if self._automatic and self._automatic[-1][1] == self.number:
            self._automatic[-1][1] += rows
        else:
            self._automatic.append([self.number, self.number + rows])
        self.number += rows
        return numbers

    def assign(self, values: NDArray[Any]) -> Ints:
        """Return the numbers of given documents `[B, N]`; `ValueError` if they are invalid."""
        is_named = values.dtype.kind in "US"
        if is_named:
            names = self._numbers.names
            for name in dict.fromkeys(values.astype(str).ravel().tolist()):
                if name not in names:
                    self.number += 1
                    names[name] = self.number - 1
        numbers = self._numbers.assign(values.ravel(), values.size).reshape(values.shape)
        if not is_named:
            self._check_free(numbers)
            self.number = max(self.number, int(numbers.max(initial=-1)) + 1)
        return numbers

    def _check_free(self, numbers: Ints) -> None:
        for start, stop in self._automatic:
            taken = numbers[(numbers >= start) & (numbers < stop)]
            if taken.size:
                raise ValueError(
                    f"documents hold {taken[0]}, but a row without documents has this number already. Give "
                    "documents for all forward passes or for none, or give them as names."
                )

    def watch(self, documents: Ints, goes_on: bool) -> None:
        """Warn once if a given number comes back after other documents, as if each pass began at 0.

        Args:
            documents: the documents of the tokens of a pass that count, in their order. Names may come back.
            goes_on: whether the pass continues the rows of the pass before, whose documents then come back.
        """
        if self._numbers.names or not documents.size:
            return
        before = np.concatenate([[-1 if self._last is None else self._last], documents[:-1]])
        starts = documents[documents != before].tolist()
        self._last = int(documents[-1])
        again = [] if goes_on or self._warned else _repeated(starts, self._seen)
        self._seen.update(starts)
        if again:
            self._warned = True
            warnings.warn(
                f"Document {again[0]} comes back after other documents. Tokens of one number count as one "
                "document, so numbers must be unique over all rows and passes. If the tokens do belong "
                "together, give documents as names.",
                stacklevel=2,
            )

    def forget(self) -> None:
        """Let numbers be used again, because the tokens so far are not counted with those to come."""
        self._automatic, self._seen, self._last = [], set(), None


def _repeated(starts: list[int], seen: set[int]) -> list[int]:
    """Return the first number that occurs again, or []."""
    known = set(seen)
    for number in starts:
        if number in known:
            return [number]
        known.add(number)
    return []
