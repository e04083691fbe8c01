"""Labels and documents of tokens: their units, which keep one label, and their groups, for intervals."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from modtf.base.words import plural
from modtf.routing.measuring.layers import Ints, dimensions
from modtf.routing.names import check_one_kind

SLICE = 2**14  # tokens processed at a time: with 64 modules their gates take 8 MiB
MOST_LABELS = 2**14
MISSING = frozenset(("", "nan", "NaN", "None", "<NA>"))  # texts that missing values become
MOST_TOKENS = 2**15  # limit on the sampled tokens; with so many, the sampling noise is negligible
DRAWN = 32  # documents that a sample has at least, if there are so many
STRETCHES = 64  # stretches of tokens that stand for documents if there are neither documents nor labels
SHORT = 8  # runs and stretches that are shorter on average do not stand for documents


@dataclass(frozen=True)
class Part:
    """Some consecutive tokens. A unit is a run of one label, or of one span, in a document."""

    some: slice | Ints  # which tokens of the chunk these are
    first: int  # the number of tokens before them
    labels: Ints  # [T]
    group: Ints  # [T], for intervals
    unit: Ints  # [T], the unit of each token
    unit_label: Ints  # [U]
    unit_document: Ints  # [U], counted from 0
    same_document: bool  # whether the first token continues the last document before
    same_unit: bool  # whether it continues the last unit before


class Tokens:
    """The labels, documents and spans of tokens, chunk by chunk."""

    def __init__(self, num_groups: int):
        self.num_groups = num_groups
        self.numbers = {what: Numbers(what) for what in ("labels", "documents", "spans")}
        self.given: dict[str, bool] = {}
        self.counts = np.zeros(0)  # [R], the number of tokens of each label
        self.num_documents = 0
        self.came_back = 0  # how often a document continued after others, in a later chunk
        self.joined: set[int] = set()  # the documents that did so within a chunk, and are put together
        self._documents: set[int] = set()
        self._last: tuple[int, ...] | None = None  # document, label and span of the last token

    def parts(
        self, num_tokens: int, labels: Any, documents: Any, spans: Any, num_modules: Sequence[int] = ()
    ) -> list[Part]:
        """Return the tokens of a chunk in parts, in an order in which each document is one piece.

        Args:
            num_tokens: the number of tokens of the chunk.
            labels, documents, spans: integers from 0, or names, `[tokens]`; or None.
            num_modules: of the layers, which a wrong number of labels may be.

        Raises:
            ValueError: if an array is invalid, or only some chunks have it.
        """
        hint = "" if labels is None else mismatch(labels, documents, num_tokens, num_modules)
        arrays = {
            what: self.numbers[what].assign(values, num_tokens, hint * (what == "labels"))
            for what, values in (("documents", documents), ("labels", labels), ("spans", spans))
            if values is not None
        }
        if num_tokens == 0:
            return []
        self.check_given({what: what in arrays for what in self.numbers})
        classes = arrays.get("labels", np.zeros(num_tokens, np.int64))
        self.make_room(int(classes.max()) + 1)
        ids = arrays.get("documents")
        order = None if ids is None else self._order(ids)
        parts = []
        for start in range(0, num_tokens, SLICE):
            part = slice(start, min(start + SLICE, num_tokens))
            some = part if order is None else order[part]
            of = [None if one is None else one[some] for one in (ids, classes, arrays.get("spans"))]
            parts.append(self._part(some, *of))
        return parts

    def _part(self, some: slice | Ints, documents: Ints | None, labels: Any, spans: Ints | None) -> Part:
        first = int(self.counts.sum())
        if documents is None:
            group = deal(count_within(labels, self.counts.astype(np.int64)), self.num_groups)
            documents = labels
        else:
            group = group_documents(documents, self.num_groups)
        keys = documents, labels, labels if spans is None else spans
        before, self._last = self._last, tuple(int(key[-1]) for key in keys)
        document, label, span = (
            np.diff(key, prepend=one) != 0
            for key, one in zip(keys, before or [int(key[0]) for key in keys], strict=True)
        )
        if (wrong := label & ~span & ~document).any():
            raise ValueError(
                f"The label changes within span {keys[2][np.argmax(wrong)]}; expected spans with one label, "
                "such as chat turns or code blocks."
            )
        same_document = before is not None and not document[0]
        same_unit = same_document and not span[0]
        document[0], span[0] = False, True
        new = document | label | span
        number = np.cumsum(document)
        self.counts += np.bincount(labels, minlength=len(self.counts))
        self.num_documents += int(number[-1]) + (not same_document)
        return Part(
            some, first, labels, group, np.cumsum(new) - 1, labels[new], number[new], same_document, same_unit
        )

    def make_room(self, num_labels: int) -> None:
        """Count labels below `num_labels`, too."""
        if num_labels > MOST_LABELS:
            raise ValueError(
                f"labels hold {num_labels - 1}; expected class numbers below {MOST_LABELS}. Map them to "
                "fewer classes (tokens of a vocabulary to token classes, documents to domains)."
            )
        self.counts = np.pad(self.counts, (0, max(num_labels - len(self.counts), 0)))

    def check_given(self, now: dict[str, bool]) -> None:
        """Raise `ValueError` unless all chunks come with the same of labels, documents and spans."""
        if now["spans"] and not (now["labels"] and now["documents"]):
            raise ValueError(
                "spans need labels and documents, because they divide documents into runs of one label. Give "
                "both."
            )
        for what, has in now.items():
            if self.given.get(what, has) != has:
                raise ValueError(
                    f"Some chunks have {what} and some have none. Give them for all chunks or for none."
                )
        self.given = now

    def _order(self, documents: Ints) -> Ints | None:
        """Return an order of a chunk's tokens in which each document is one piece; None if it is theirs."""
        starts = np.flatnonzero(np.diff(documents, prepend=documents[0] - 1))
        numbers = set(documents[starts].tolist())
        last, contiguous = self._last[0] if self._last else -1, len(numbers) == len(starts)
        moved = last in numbers and documents[0] != last  # to the first place, unless all are contiguous
        goes_on = set() if moved and contiguous else {last}
        self.came_back += len(numbers & self._documents - goes_on)
        self._documents |= numbers
        if contiguous:
            return None
        ids, pieces = np.unique(documents[starts], return_counts=True)
        self.joined.update(ids[pieces > 1].tolist(), {last} if moved else ())
        return np.lexsort((documents, documents != last))

    def notes(self) -> Iterator[str]:
        """Yield what a reader has to know about labels and documents."""
        for what in ("labels", "documents"):
            yield from lost_names(what, self.numbers[what].names)
        if not self.given["labels"]:
            yield (
                "There are no labels. Give labels=..., one for each token or document (its domain, language "
                "or class), to measure what experts specialise in, and the chance level."
            )
        elif not self.given["documents"]:
            yield (
                "There are no documents. Consecutive tokens with the same label count as one document, "
                f"{self.num_documents} in all. If documents are longer or shorter, the chance level is "
                "wrong. Give documents=..., the number of each token's document (np.arange(tokens) if tokens "
                "are independent)."
            )
        if self.joined:
            yield (
                f"Tokens of {plural(len(self.joined), 'document')} come back after those of others. All "
                "tokens of one number count as one document. If numbers begin again in each batch, make them "
                "unique."
            )
        if self.came_back:
            yield (
                f"Tokens of {plural(self.came_back, 'document')} are not contiguous, so their pieces "
                "count as separate documents. Give the tokens of a document one after the other."
            )


def mismatch(labels: Any, documents: Any, num_tokens: int, num_modules: Sequence[int] = ()) -> str:
    """Return advice if the number of labels differs from the number of tokens; otherwise ""."""
    num_labels = np.shape(labels)[0] if dimensions(labels) == 1 else num_tokens
    if num_labels == num_tokens:
        return ""
    if num_labels in num_modules:
        return "Activations are [tokens, modules] or [layers, tokens, modules]: transpose them."
    num_documents = 0 if documents is None else len(np.unique(np.asarray(documents)))
    if num_labels + num_documents == num_tokens:
        return (
            "One is missing for each document, which happens if labels belong to predictions of the next "
            "token. Leave out the last token of every document in activations and documents, too."
        )
    if num_labels == num_documents:
        return (
            "The number fits documents: number documents from 0 in the order of labels, or give "
            "labels[documents]."
        )
    if 0 < 4 * (more := num_labels - num_tokens) <= num_tokens:
        return (
            f"There are {more} fewer tokens, because engines do not route the last token that they generate. "
            "If one is missing in each document, leave out the last token of each document here, too."
        )
    return "Give one for every token, in the order of the tokens."


def spread_labels(labels: Any, documents: Any, num_tokens: int) -> Any:
    """Return labels `[tokens]` from labels `[documents]`, indexed by document; other labels unchanged."""
    if labels is None or documents is None or dimensions(labels) != 1 or len(labels) == num_tokens:
        return labels
    numbers = np.asarray(documents)
    fits = numbers.shape == (num_tokens,) and numbers.dtype.kind in "iu" and num_tokens > 0
    if not fits or numbers.min() < 0 or numbers.max() != len(labels) - 1:
        return labels
    return np.asarray(labels)[numbers]


def check_labels(values: ArrayLike, num_tokens: int, name: str = "labels", hint: str = "") -> Ints:
    """Return labels (or documents) as int64 `[tokens]`; `ValueError` unless they are integers from 0."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be one integer for every token: {error}") from error
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} are masked. Leave out the tokens without one by tokens[~labels.mask].")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} are of type {array.dtype}; expected integers of at least 0. To number other values: "
            f"names, {name} = np.unique({name}, return_inverse=True)."
        )
    if array.shape != (num_tokens,):
        raise ValueError(
            f"{name} have shape {array.shape}; expected ({num_tokens},), one for each token. {hint}".strip()
        )
    if array.size and array.min() < 0:
        index = int(np.argmin(array))
        raise ValueError(
            f"{name} hold {array[index]} at token {index}; expected integers of at least 0. Leave out "
            "tokens without one: keep = labels >= 0, then activations[..., keep, :] and labels[keep]."
        )
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(
            f"{name} hold {array.max()}; expected integers below 2**63. To number them from 0: names, {name} "
            f"= np.unique({name}, return_inverse=True)."
        )
    return array.astype(np.int64, copy=False)


def lost_names(what: str, names: Iterable[str]) -> Iterator[str]:
    """Yield a warning if names look like missing values that were converted to text."""
    if lost := sorted(MISSING.intersection(names)):
        yield (
            f"{what} hold {' and '.join(map(repr, lost))}, as if they were missing for some tokens. This "
            "counts as a name like any other. Leave out tokens without one."
        )


class Numbers:
    """A numbering of names, in the order in which chunks bring them. Integers are unchanged.

    Args:
        what: "labels" or "documents", for errors.

    Example:
        >>> numbers = Numbers("labels")
        >>> numbers.assign(["law", "code"], 2).tolist(), numbers.assign(["verse", "law"], 2).tolist()
        ([1, 0], [2, 1])
        >>> list(numbers.names)
        ['code', 'law', 'verse']
    """

    def __init__(self, what: str):
        self.what = what
        self.names: dict[str, int] = {}
        self._named: bool | None = None

    def assign(self, values: ArrayLike, num_tokens: int, hint: str = "") -> Ints:
        """Return numbers `[tokens]`; `ValueError` if values are invalid, or only some chunks have names."""
        try:
            array = np.asarray(values)
        except ValueError:
            return check_labels(values, num_tokens, self.what, hint)  # raises a clear error
        named = array.dtype.kind in "US" and not isinstance(values, np.ma.MaskedArray)
        if named:
            check_one_kind(values, self.what)
        if array.size:
            if self._named not in (None, named):
                raise ValueError(
                    f"Some chunks have {self.what} as names and some as numbers. Give all in the same form."
                )
            self._named = named
        if not named:
            return check_labels(values, num_tokens, self.what, hint)
        words, inverse = np.unique(array.astype(str), return_inverse=True)
        numbers = np.array([self.names.setdefault(str(word), len(self.names)) for word in words], np.int64)
        return check_labels(numbers[inverse].reshape(array.shape), num_tokens, self.what, hint)


def _rounds(most: int) -> tuple[Ints, Ints]:
    """Return the start and the run length of each round of `deal`, up to `most` tokens."""
    starts, lengths = [0], [1]
    while starts[-1] < most:
        starts.append(starts[-1] + lengths[-1])
        lengths.append(max(1, starts[-1] // 4))
    return np.array(starts, np.int64), np.array(lengths, np.int64)


_STARTS, _LENGTHS = _rounds(most=2**48)


def deal(index: Ints, num_groups: int) -> Ints:
    """Return the group of each token, from its index (from 0) among the tokens of its label.

    Neighbouring tokens are alike, because they come from one document. So the tokens of a label are dealt in
    runs, one run to each group in turn. The run length grows with the number of tokens dealt before, up to a
    quarter of it. Every group gets the same share of every label, for any order and number of tokens, and
    runs are as long as the data allow.

    Example:
        >>> deal(np.array([0, 1, 2, 3, 4, 5]), num_groups=3).tolist()
        [0, 1, 2, 0, 1, 2]
        >>> deal(np.arange(24, 30), num_groups=3).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    number = np.searchsorted(_STARTS, index // num_groups, side="right") - 1
    group: Ints = (index - _STARTS[number] * num_groups) // _LENGTHS[number]
    return group


def count_within(labels: Ints, seen: Ints) -> Ints:
    """Return how many tokens of its label precede each token, given `seen [R]` before the first token.

    Example:
        >>> count_within(np.array([1, 0, 1, 1]), seen=np.array([0, 10])).tolist()
        [10, 0, 11, 12]
    """
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=len(seen))
    before = np.repeat(np.cumsum(counts) - counts, counts)
    index = np.empty_like(labels)
    index[order] = np.arange(len(labels)) - before + np.repeat(seen, counts)
    return index


def group_documents(documents: Ints, num_groups: int) -> Ints:
    """Return the group of each token, which is the same for all tokens of a document."""
    mixed = documents.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # modulo 2^64
    return ((mixed >> np.uint64(33)) % np.uint64(num_groups)).astype(np.int64)


def drawn_tokens(documents: Ints, most: int, seed: int) -> Ints:
    """Return the places of up to `most` tokens, sorted: all, or those of documents drawn at random.

    A long document gives a stretch of its tokens, from a random one on, so that `DRAWN` documents fit.
    """
    if len(documents) <= most:
        return np.arange(len(documents))
    _, number, sizes = np.unique(documents, return_inverse=True, return_counts=True)
    generator, kept = np.random.default_rng(seed), np.zeros_like(sizes)
    order = generator.permutation(len(sizes))
    taken = np.minimum(sizes, max(most // min(len(sizes), DRAWN), 1))
    drawn = order[taken[order].cumsum() <= most]
    kept[drawn] = taken[drawn]
    place = count_within(number, np.zeros_like(sizes)) - generator.integers(sizes - taken + 1)[number]
    return np.flatnonzero((place >= 0) & (place < kept[number]))


def drawn_note(documents: Ints, some: Ints) -> str:
    """Return a note on the tokens that `drawn_tokens` left out, or "" if there are none."""
    number = len(np.unique(documents[some]))
    how = f"from {plural(number, 'document')}" if number < len(some) else "at random"
    left_out = len(some) < len(documents)
    return f"{len(some)} of {len(documents)} tokens are used, drawn {how}." if left_out else ""


def assumed_documents(labels: Ints | None, num_tokens: int) -> tuple[Ints, str]:
    """Return what stands for the documents of tokens, from 0 `[tokens]`, if there are none, and a note.

    Runs of tokens of one label do, or stretches of consecutive tokens if runs are short or there is at most
    one label.
    """
    if labels is not None:
        runs = np.cumsum(np.diff(labels, prepend=labels[0]) != 0)
        if runs[-1] > 0 and (runs[-1] + 1) * SHORT <= num_tokens:
            return runs, "There are no documents. Runs of tokens of one label stand for them."
    stretches = np.arange(num_tokens) * min(STRETCHES, max(num_tokens // SHORT, 1)) // num_tokens
    number = stretches[-1] + 1
    return stretches, f"There are no documents. {number} stretches of consecutive tokens stand for them."


def dealt(values: Ints, documents: Ints, generator: np.random.Generator) -> Ints:
    """Return the values of another document for each document, from a random token on and around its end.

    So values that are constant within documents stay so, runs stay runs, and topics stay in one document. If
    each token is a document of its own, the values are permuted.
    """
    number = np.unique(documents, return_inverse=True)[1]
    order, sizes = np.argsort(number, kind="stable"), np.bincount(number)
    starts, other, of = np.cumsum(sizes) - sizes, generator.permutation(len(sizes)), number[order]
    places = np.arange(len(order)) - starts[of] + generator.integers(sizes[other])[of]
    exchanged = np.empty_like(values)
    exchanged[order] = values[order][starts[other][of] + places % sizes[other][of]]
    return exchanged


def paired(documents: Ints, generator: np.random.Generator) -> Ints:
    """Return a random token of another document for every token `[T]`; documents are sorted from 0.

    All tokens of a document get tokens of one other document. A single document gets its tokens permuted.
    """
    sizes = np.bincount(documents)
    if len(sizes) == 1:
        return generator.permutation(len(documents))
    order = generator.permutation(len(sizes))
    other = np.empty_like(order)
    other[order] = np.roll(order, 1)
    partner = other[documents]
    starts = np.cumsum(sizes) - sizes
    return np.asarray(starts[partner] + (generator.random(len(documents)) * sizes[partner]).astype(np.int64))
