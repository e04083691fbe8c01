"""Steps of reading what is known of tokens: labels, documents, factors, names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import warn
from modtf.routing.formats.registry import Arrays
from modtf.routing.measuring.activations import Counted
from modtf.routing.measuring.layers import Experts, Gates, Ints
from modtf.routing.measuring.tokens import check_labels, lost_names, mismatch, spread_labels

TOKEN = "tokens"
PREDICTED = "predicted_tokens"
FREQUENT = 999  # each of this many most frequent tokens gets its own label
POSITIONS = "positions"


@dataclass(frozen=True)
class Classes:
    """Labels, documents or another numbering of tokens `[tokens]`, and their names, if they are known."""

    numbers: Ints | None = None
    names: tuple[str, ...] | None = None


def documents_of(arrays: Arrays, name: str | None, activations: Gates | Experts | Counted) -> Classes:
    """Return the document of every token; `ValueError` for counts, of which each row is a document."""
    if not isinstance(activations, Counted):
        values = arrays.optional("documents", name)
        return _warned(numbered(values, activations.shape[1], "documents"), "documents")
    if name is not None or "documents" in arrays:
        raise ValueError(
            f"{arrays.source} holds counts [documents, layers, experts], each row of which is a "
            "document, so documents do not apply. Leave them out, and add up rows of one document."
        )
    return Classes()


def labels_and_factors(
    arrays: Arrays, name: str, names: str | None, num_tokens: int, documents: Classes, tokens: Classes
) -> tuple[Classes, dict[str, Ints]]:
    """Return the labels of tokens, and the known factors: "token", "position" and "label".

    The factor "label" is the chosen labels. If these are the tokens or positions, it is the array "labels".
    """
    positions = numbered(arrays.get(POSITIONS), num_tokens, POSITIONS)
    factors = {"token": tokens.numbers, "position": positions.numbers}
    has_labels = name != TOKEN and (name != "labels" or name in arrays)
    if names is not None and not has_labels:
        raise ValueError(
            f"label_names={names!r} names labels, but {arrays.source} is measured by its tokens or without "
            "labels. Give labels, or leave out label_names. The texts of tokens are token_names."
        )
    if not has_labels and TOKEN not in arrays and name == "labels":
        return Classes(), _known(factors)
    name = name if has_labels else TOKEN
    classes = _warned(numbered(arrays.named(name), num_tokens, "labels", documents), "labels")
    if name not in (TOKEN, POSITIONS):
        factors["label"] = classes.numbers
    elif "labels" in arrays:
        factors["label"] = numbered(arrays["labels"], num_tokens, "labels", documents).numbers
    if name == TOKEN:
        return frequent_tokens(classes, as_names(arrays.get("token_names"))), _known(factors)
    is_usual = name == "labels" or "labels" not in arrays
    return Classes(classes.numbers, names_of_labels(arrays, classes, names, is_usual)), _known(factors)


def _known(factors: dict[str, Ints | None]) -> dict[str, Ints]:
    return {name: values for name, values in factors.items() if values is not None}


def numbered(
    values: NDArray[Any] | None, num_tokens: int, what: str, documents: Classes | None = None
) -> Classes:
    """Return labels or documents as integers, with their names if they are text.

    If documents are numbers, labels may have one value for each of these.
    """
    if values is None:
        return Classes()
    numbers = None if documents is None else documents.numbers
    if documents is not None and documents.names is None:
        values = spread_labels(values, numbers, num_tokens)
    hint = mismatch(values, numbers, num_tokens)
    if values.dtype.kind not in "US":
        return Classes(check_labels(values, num_tokens, what, hint))
    names, classes = np.unique(values, return_inverse=True)
    return Classes(check_labels(classes, num_tokens, what, hint), as_names(names))


def _warned(classes: Classes, what: str) -> Classes:
    """Return the classes, and warn of names that look like missing values."""
    for text in lost_names(what, classes.names or ()):
        warn(text)
    return classes


def token_ids(arrays: Arrays, name: str, num_tokens: int) -> Classes:
    """Return the ids of tokens or of predicted tokens.

    Texts in place of ids are numbered, with one numbering for tokens and predicted tokens.
    """
    texts = [arrays[one].ravel() for one in (TOKEN, PREDICTED) if one in arrays]
    if len({one.dtype.kind in "US" for one in texts}) > 1:
        raise ValueError(
            f"{arrays.source} has texts and ids as {TOKEN} and {PREDICTED}; expected the same form of both."
        )
    classes = numbered(arrays.get(name), num_tokens, name)
    if classes.names is None or len(texts) == 1:
        return classes
    words = np.unique(np.concatenate(texts))
    return Classes(np.searchsorted(words, arrays[name]), as_names(words))


def text_of(token: int, words: Sequence[str] | None) -> str:
    """Return the text of a token, or its id if the text is not known."""
    return str(token) if words is None or token >= len(words) else words[token]


def spans_of(arrays: Arrays, name: str | None, num_tokens: int, are_of_use: bool) -> Ints | None:
    """Return the span of every token, or None; `ValueError` if spans are asked for, but are of no use."""
    if name is not None and not are_of_use:
        raise ValueError(
            f"spans={name!r} cuts documents into runs of one label, but {arrays.source} lacks labels or "
            "documents. Give both, or leave spans out."
        )
    return numbered(arrays.optional("spans", name) if are_of_use else None, num_tokens, "spans").numbers


def frequent_tokens(tokens: Classes, words: Sequence[str] | None) -> Classes:
    """Return tokens numbered by frequency; all rare tokens share the last number."""
    words = tokens.names or words
    assert tokens.numbers is not None
    ids, place, counts = np.unique(tokens.numbers, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:FREQUENT]
    number = np.full(len(ids), len(order))
    number[order] = np.arange(len(order))
    names = [text_of(one, words) for one in ids[order].tolist()]
    return Classes(number[place], (*names, *["other tokens"] * (len(ids) > len(order))))


def names_of_labels(
    arrays: Arrays, classes: Classes, name: str | None, is_usual: bool
) -> tuple[str, ...] | None:
    """Return the names of labels. The array "label_names" belongs to the array "labels" only."""
    names = as_names(arrays.optional("label_names", name)) if is_usual or name is not None else None
    if classes.names is not None and names is not None:
        raise ValueError("labels are names already. Leave out label_names, or number the labels.")
    names = classes.names or names
    _check_distinct("label", names)
    assert classes.numbers is not None
    if names is not None and classes.numbers.max() >= len(names):
        raise ValueError(
            f"labels go up to {classes.numbers.max()}, but there are {len(names)} label_names; "
            f"expected at least {classes.numbers.max() + 1}: label i has the name label_names[i]."
        )
    return names


def layer_names(arrays: Arrays, name: str | None, num_layers: int) -> tuple[str, ...] | None:
    """Return one name for each layer, or None."""
    names = as_names(arrays.optional("layer_names", name))
    if names is not None and len(names) != num_layers:
        raise ValueError(f"There are {len(names)} layer_names; expected {num_layers}, one for each layer.")
    _check_distinct("layer", names)
    return names


def _check_distinct(what: str, names: Sequence[str] | None) -> None:
    """Raise `ValueError` if two labels, or two layers, have one name."""
    if names is not None and len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"{what}_names hold {again!r} twice; expected a different name for each {what}, in the order of "
            f"the numbers. Names of single tokens are no {what}_names."
        )


def as_names(values: NDArray[Any] | None) -> tuple[str, ...] | None:
    """Return names as text."""
    if values is None:
        return None
    return tuple(value.decode() if isinstance(value, bytes) else str(value) for value in values.ravel())
