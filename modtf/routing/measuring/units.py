"""Units of tokens, which keep one common label when labels are permuted, and pieces of documents."""

from collections.abc import Sequence

import numpy as np

from modtf.routing.measuring.checks import Ints

Last = tuple[int, int, int]


class Units:
    """The units of some consecutive tokens.

    Attributes:
        index: `[T]`, the unit of each token.
        label, document: `[U]`, the label and document of each unit; documents count from 0.
        same_document, same_unit: whether the first token continues the last document, or unit, before.
        last: document, label and span of the last token.

    Args:
        documents, labels, spans: the document, label and span of each token, `[T]`.
        before: document, label and span of the token before the first.

    Raises:
        ValueError: if the label changes within a span.
    """

    def __init__(self, documents: Ints, labels: Ints, spans: Ints | None, before: Last | None):
        keys = documents, labels, labels if spans is None else spans
        document, label, span = (
            np.diff(key, prepend=one) != 0
            for key, one in zip(keys, before or [int(key[0]) for key in keys], strict=True)
        )
        wrong = label & ~span & ~document
        if wrong.any():
            raise ValueError(
                f"The label changes within span {keys[2][np.argmax(wrong)]}; expected spans with one label, "
                "such as chat turns or code blocks."
            )
        self.same_document = before is not None and not document[0]
        self.same_unit = self.same_document and not span[0]
        document[0], span[0] = False, True
        new = document | label | span
        self.index = np.cumsum(new) - 1
        self.label, self.document = labels[new], np.cumsum(document)[new]
        self.last: Last = int(keys[0][-1]), int(keys[1][-1]), int(keys[2][-1])


class Pieces:
    """The pieces of documents in chunks of tokens.

    Attributes:
        came_back: how often a document continued after tokens of other documents, in a later chunk.
        joined: the documents that did so within a chunk, whose tokens are put together.
    """

    def __init__(self) -> None:
        self.came_back = 0
        self.joined: set[int] = set()
        self._documents: set[int] = set()

    def order(self, documents: Ints, before: Last | None) -> Ints | slice:
        """Return an order of a chunk's tokens in which each document is one piece.

        Args:
            documents: the document of each token, `[T]`.
            before: document, label and span of the token before the first.
        """
        starts = np.flatnonzero(np.diff(documents, prepend=documents[0] - 1))
        numbers = set(documents[starts].tolist())
        last, contiguous = before[0] if before else -1, len(numbers) == len(starts)
        moved = last in numbers and documents[0] != last  # to the first place, unless all are contiguous
        goes_on = set() if moved and contiguous else {last}
        self.came_back += len(numbers & self._documents - goes_on)
        self._documents |= numbers
        if contiguous:
            return slice(None)
        ids, pieces = np.unique(documents[starts], return_counts=True)
        self.joined.update(ids[pieces > 1].tolist(), {last} if moved else ())
        return np.lexsort((documents, documents != last))


def check_given(before: Sequence[bool | None], now: Sequence[bool]) -> None:
    """Raise `ValueError` unless all chunks come with the same of labels, documents and spans."""
    has_labels, has_documents, has_spans = now
    if has_spans and not (has_labels and has_documents):
        raise ValueError(
            "spans need labels and documents, because they divide documents into runs of one label. Give "
            "both."
        )
    for what, had, has in zip(("labels", "documents", "spans"), before, now, strict=True):
        if had not in (None, has):
            raise ValueError(
                f"Some chunks have {what} and some have none. Give them for all chunks or for none."
            )
