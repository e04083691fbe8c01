"""Checks of users' arrays."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.metrics.distributions import real
from modtf.routing.names import check_one_kind

Ints = NDArray[np.int64]
MOST_LABELS = 2**14
MISSING = frozenset(("", "nan", "NaN", "None", "<NA>"))  # texts that missing values become
MOST_BYTES = 2**31
BFLOAT16 = np.dtype("V2")  # .npy files have no bfloat16; they store it as two raw bytes


def check_no_none(what: str, layers: Any) -> None:
    """Raise `ValueError` if a layer is None, as layers without a router are in the outputs of models."""
    if isinstance(layers, list | tuple) and any(layer is None for layer in layers):
        place = next(i for i, layer in enumerate(layers) if layer is None)
        raise ValueError(f"{what} has None as layer {place}. Leave out layers without a router.")


def as_layers(activations: ArrayLike) -> list[NDArray[Any]]:
    """Return activations as one array `[tokens, M]` per layer; `ValueError` if they are invalid."""
    check_no_none("activations", activations)
    if isinstance(activations, list | tuple) and {dimensions(part) for part in activations} == {2}:
        layers = [_numbers(part) for part in activations]  # M may differ
        if len({len(layer) for layer in layers}) > 1:
            raise ValueError(
                f"The layers have {', '.join(str(len(layer)) for layer in layers)} tokens; expected the "
                "same number."
            )
    else:
        array = _numbers(activations)
        layers = list(array) if array.ndim == 3 else [array]
    if not layers or any(layer.ndim != 2 or layer.shape[1] == 0 for layer in layers):
        raise ValueError(
            f"activations have shape {np.shape(activations)}; expected [tokens, modules] or [layers, tokens, "
            "modules], or a list of [tokens, modules]. Flatten batch and sequence into tokens: "
            "activations.reshape(-1, modules)."
        )
    return layers


def as_counts(counts: ArrayLike, top_k: int | None) -> NDArray[np.float64]:
    """Return counts `[documents, layers, experts]` of `top_k` choices a token; `ValueError` if invalid."""
    array = _numbers(counts, "counts")
    array = array[:, np.newaxis] if array.ndim == 2 else array
    if array.ndim != 3 or 0 in array.shape:
        raise ValueError(
            f"counts have shape {np.shape(counts)}; expected [documents, layers, experts] or [documents, "
            "experts]."
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"counts hold {array.min():g}; expected finite numbers of at least 0.")
    if (array != np.round(array)).any():
        raise ValueError(
            "counts hold fractions; expected integers, how often the tokens of a document chose each expert."
        )
    if exceed_tokens(array, top_k):
        raise ValueError(
            f"counts hold more choices of an expert than tokens, if each token makes {top_k or 1} choices; "
            "expected each expert at most once among a token's choices."
        )
    return array.astype(np.float64)


def exceed_tokens(counts: NDArray[Any], top_k: int | None) -> bool:
    """Return whether an expert has more choices than there are tokens, at `top_k` choices a token.

    Args:
        counts: [documents, layers, experts].
        top_k: 1 if it is not known.
    """
    return bool((counts.max(axis=2) * (top_k or 1) > counts.sum(axis=2)).any())


def dimensions(thing: Any) -> int:
    """Return the number of dimensions of an array or nested lists; -1 if they are ragged."""
    try:
        return np.ndim(thing)
    except ValueError:
        return -1


def from_bfloat16(values: NDArray[Any]) -> NDArray[Any]:
    """Return bfloat16 (two raw bytes in files) as float32, and other numbers unchanged."""
    if values.dtype != BFLOAT16:
        return values
    return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _numbers(values: ArrayLike, name: str = "activations") -> NDArray[Any]:
    try:
        array = real(values)
        if array.dtype.kind not in "fiub":  # lists of tensors, bfloat16 of ml_dtypes, ...
            array = array.astype(np.float64 if array.dtype.kind == "O" else np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    return array


def mismatch(
    labels: ArrayLike, documents: ArrayLike | None, num_tokens: int, num_modules: Sequence[int]
) -> str:
    """Return advice if the number of labels differs from the number of tokens; otherwise ""."""
    num_labels = np.shape(labels)[0] if dimensions(labels) == 1 else num_tokens
    if num_labels == num_tokens:
        return ""
    if num_labels in num_modules:
        return "Activations are [tokens, modules] or [layers, tokens, modules]: transpose them."
    documents = None if documents is None else np.asarray(documents)
    if documents is not None and num_labels + len(np.unique(documents)) == num_tokens:
        return (
            "One is missing for each document, which happens if labels belong to predictions of the next "
            "token. Leave out the last token of every document in activations and documents, too."
        )
    if documents is not None and num_labels == len(np.unique(documents)):
        return (
            "The number fits documents: number documents from 0 in the order of labels, or give "
            "labels[documents]."
        )
    return "Give one for every token, in the order of the tokens."


def spread_labels(labels: Any, documents: Any, num_tokens: int) -> Any:
    """Return labels `[tokens]` from labels `[documents]`, indexed by document; other labels unchanged."""
    if dimensions(labels) != 1 or len(labels) == num_tokens:
        return labels
    numbers = np.asarray(documents)
    fits = numbers.shape == (num_tokens,) and numbers.dtype.kind in "iu" and num_tokens > 0
    if not fits or (numbers.min(), numbers.max()) != (0, len(labels) - 1):
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


def check_labels_fit(num_labels: int, sizes: Sequence[int], num_groups: int) -> None:
    """Raise `ValueError` if the sums of this many labels would not fit into memory."""
    if num_labels > MOST_LABELS:
        raise ValueError(
            f"labels hold {num_labels - 1}; expected class numbers below {MOST_LABELS}. Map them to "
            "fewer classes (tokens of a vocabulary to token classes, documents to domains)."
        )
    num_bytes = 16 * sum(sizes) * num_groups * num_labels
    if num_bytes > MOST_BYTES:
        raise ValueError(
            f"{num_labels} labels x {layer_sizes(sizes)} x {num_groups} groups would need "
            f"{num_bytes / 2**30:.1f} GiB. Map labels to fewer classes, or measure fewer layers at a time."
        )


def layer_sizes(sizes: Sequence[int]) -> str:
    """Return a text with the numbers of layers and modules."""
    alike = f"{sizes[0]} modules" if len(set(sizes)) == 1 else f"{sizes} modules"
    return f"{len(sizes)} layer(s) and {alike}"


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
        >>> numbers.of(["law", "code"], 2).tolist(), numbers.of(["verse", "law"], 2).tolist()
        ([1, 0], [2, 1])
        >>> list(numbers.names)
        ['code', 'law', 'verse']
    """

    def __init__(self, what: str):
        self.what = what
        self.names: dict[str, int] = {}
        self._named: bool | None = None

    def of(self, values: ArrayLike, num_tokens: int, hint: str = "") -> Ints:
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
