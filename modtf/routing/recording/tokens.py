"""Number the documents of the tokens in forward passes, and give each token its label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.measuring.tokens import Numbers
from modtf.routing.names import check_one_kind
from modtf.routing.recording.documents import DocumentNumbers
from modtf.routing.recording.given import Span
from modtf.routing.recording.watch import Stream

Ints = NDArray[np.int64]


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

    Args:
        name: the name of the stream, for errors.
        ends: tokens after which a row has ended, if it is decoded from a cache without `generate()`.
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
        ids, keep, goes_on = as_array(stream.ids), stream.keep, self._begin(stream)
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

        Args:
            documents: `[B, N]`.
            before: the document of the row's token before the first, if the pass goes on.
            keep: `[B, N]`.
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
        array = as_array(values)
        if array.ndim == 1:
            self._row["label"] = array
        return self.labels.assign(per_token(array, keep, f"labels{self.what}")[keep], int(keep.sum()))


def as_array(values: Any) -> NDArray[Any]:
    """Return a tensor, on any device and in any precision, as an array."""
    import torch

    if not torch.is_tensor(values):
        return np.asarray(values)
    values = values.detach().cpu()
    return np.asarray((values.float() if values.is_floating_point() else values).numpy())


def per_token(values: Any, keep: NDArray[np.bool_], what: str) -> NDArray[Any]:
    """Return values `[B]` or `[B, N]` as `[B, N]`; `ValueError` if they have another shape."""
    array = as_array(values)
    shape = array.shape
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[0] != keep.shape[0] or array.shape[1] not in (1, keep.shape[1]):
        raise ValueError(
            f"{what} have shape {shape}; expected {keep.shape[:1]} or {keep.shape}, one for each row or "
            "token."
        )
    return np.broadcast_to(array, keep.shape)
