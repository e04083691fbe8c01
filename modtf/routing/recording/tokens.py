"""Number the documents of the tokens in forward passes, and give each token its label."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import from_tensor
from modtf.routing.measuring.tokens import Numbers
from modtf.routing.names import check_one_kind
from modtf.routing.recording.watch import Span, Stream

Ints = NDArray[np.int64]


class DocumentNumbers:
    """The numbers of documents, over all passes of one stream.

    Given integers are unchanged. Names are numbered in the order in which they first occur. A row without a
    given document gets the next free number.

    Example:
        >>> numbers = DocumentNumbers()
        >>> numbers.assign(np.array([["law", "code"]])).tolist(), numbers.next(2).tolist()
        ([[0, 1]], [2, 3])
    """

    def __init__(self) -> None:
        self.number = 0  # the highest number so far, plus 1
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

        Names may come back, and so may the documents of rows that a pass goes on with.
        """
        if self._numbers.names or not documents.size:
            return
        before = np.concatenate([[-1 if self._last is None else self._last], documents[:-1]])
        starts = documents[documents != before].tolist()
        self._last = int(documents[-1])
        for number in starts:
            if number in self._seen and not goes_on and not self._warned:
                self._warned = True
                warnings.warn(
                    f"Document {number} comes back after other documents. Tokens of one number count as one "
                    "document, so numbers must be unique over all rows and passes. If the tokens do belong "
                    "together, give documents as names.",
                    stacklevel=2,
                )
            self._seen.add(number)

    def forget(self) -> None:
        """Let numbers be used again, because the tokens so far are not counted with those to come."""
        self._automatic, self._seen, self._last = [], set(), None


@dataclass
class Note:
    """The labels and documents that a user gave for the tokens of the next forward pass, or None."""

    labels: Any = None
    documents: Any = None

    def of(self, stream: str) -> tuple[Any, Any]:
        """Return the labels and documents of a stream, by its name if they are mappings."""
        values = self.labels, self.documents
        labels, documents = (one.get(stream) if isinstance(one, Mapping) else one for one in values)
        return labels, documents


class Rows:
    """The rows of one stream: which document, label and position each of their tokens has.

    A row that is decoded from a cache without `generate()` has ended after one of the tokens `ends`.
    """

    def __init__(self, name: str, ends: Sequence[int] = ()):
        self.name, self.what = name, f" of the {name}" if name else ""
        self.ends = ends
        self.labels, self.documents = Numbers("labels"), DocumentNumbers()
        self._labelled: bool | None = None
        self._row: dict[str, NDArray[Any]] = {}  # last pass: document, label, tokens, whether each row ended
        self._note: Note | None = None
        self._span: Span | None = None  # of the last pass
        self._generation = 0

    def add(self, stream: Stream, note: Note) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
        """Return which tokens `[B, N]` count, and arrays `[tokens]` of the tokens that count.

        Raises:
            ValueError: if labels or documents do not fit the tokens, or only some passes have labels.
        """
        ids, keep, goes_on = np.asarray(from_tensor(stream.ids)), stream.keep, self._begin(stream)
        labels, documents = (None, None) if note is self._note else note.of(self.name)
        check_one_kind(labels, "labels")
        check_one_kind(documents, "documents")
        self._note = note  # a note is valid for one pass
        if goes_on:
            keep = keep & ~self._row["ended"][:, np.newaxis]
            if ids.shape[1] == 1:
                ended = np.isin(ids[:, 0], self.ends) if stream.stopped is None else stream.stopped
                self._row["ended"] = self._row["ended"] | ended
        before = self._row.get("document")
        numbers = self._documents(documents, keep, goes_on)
        counted = self._counted(numbers, before, keep)
        values = {
            "tokens": ids[keep].astype(np.int64),
            "positions": np.log2(np.maximum(counted, 1))[keep].astype(np.int64),
            "documents": numbers[keep],
        }
        classes = self._labels(labels, keep, goes_on)
        return keep, values if classes is None else {**values, "labels": classes}

    def _begin(self, stream: Stream) -> bool:
        """Return whether a pass goes on with the rows of the pass before. If not, begin new rows."""
        before, self._span, rows = self._span, stream.span, len(stream.keep)
        goes_on = before is not None and len(self._row["tokens"]) == rows and stream.span.follows(before)
        if not goes_on:
            self._row = {"tokens": np.zeros(rows, np.int64)}
        if not goes_on or stream.keep.shape[1] > 1 or stream.generation != self._generation:
            self._row["ended"] = np.zeros(rows, bool)  # there is new input, or a new call of `generate()`
        self._generation = stream.generation
        return goes_on

    def _documents(self, values: Any, keep: NDArray[np.bool_], goes_on: bool) -> Ints:
        """Return the document of each token, `[B, N]`."""
        if values is not None:
            numbers = self.documents.assign(per_token(values, keep, f"documents{self.what}"))
            self.documents.watch(numbers[keep], goes_on)
            self._row["document"] = numbers[:, -1]
            return numbers
        if not goes_on or "document" not in self._row:
            self._row["document"] = self.documents.next(len(keep))
        return np.broadcast_to(self._row["document"][:, np.newaxis], keep.shape).astype(np.int64)

    def _counted(self, documents: Ints, before: Ints | None, keep: NDArray[np.bool_]) -> Ints:
        """Return how many tokens of its document each row has up to each token, `[B, N]`.

        `before` is the document of the row's token before the first, if the pass goes on.
        """
        if not documents.size:
            return documents
        first = documents[:, 0] if before is None else before
        starts = documents != np.column_stack([first, documents[:, :-1]])
        counted = keep.cumsum(axis=1) + self._row["tokens"][:, np.newaxis]
        counted -= np.maximum.accumulate(np.where(starts, counted - keep, 0), axis=1)
        self._row["tokens"] = counted[:, -1]
        return counted

    def _labels(self, values: Any, keep: NDArray[np.bool_], goes_on: bool) -> Ints | None:
        if values is None and goes_on and "label" in self._row:
            values = self._row["label"]
        if (values is not None) != (self._labelled if self._labelled is not None else values is not None):
            raise ValueError(
                "Some forward passes have labels and some have none. Call recorder.next(labels=...) before "
                "each pass. If a cache continues a pass, give labels [B], one for each row."
            )
        self._labelled = values is not None
        if values is None:
            return None
        array = np.asarray(from_tensor(values))
        if array.ndim == 1:
            self._row["label"] = array
        return self.labels.assign(per_token(array, keep, f"labels{self.what}")[keep], int(keep.sum()))


def per_token(values: Any, keep: NDArray[np.bool_], what: str) -> NDArray[Any]:
    """Return values `[B]` or `[B, N]` as `[B, N]`; `ValueError` if they have another shape."""
    array = np.asarray(from_tensor(values))
    shape = array.shape
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[0] != keep.shape[0] or array.shape[1] not in (1, keep.shape[1]):
        raise ValueError(
            f"{what} have shape {shape}; expected {keep.shape[:1]} or {keep.shape}, one for each row or "
            "token."
        )
    return np.broadcast_to(array, keep.shape)
