"""Steps of reading what is known of tokens: labels, documents, factors, names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.arrays import Arrays
from modtf.routing.formats.joined import warn
from modtf.routing.measuring.layers import Experts, Gates, Ints
from modtf.routing.measuring.tokens import check_labels, lost_names
from modtf.routing.reading import Counted

TOKEN = "tokens"
PREDICTED = "predicted_tokens"
FREQUENT = 999  # each of this many most frequent tokens gets its own label
POSITIONS = "positions"


@dataclass(frozen=True)
class Classes:
    """Labels, documents or another numbering of tokens `[tokens]`, and their names, if they have any."""

    numbers: Ints
    names: tuple[str, ...] | None


def documents_of(arrays: Arrays, name: str | None, activations: Gates | Experts | Counted) -> Classes | None:
    """Return the document of every token, or None if the file has no documents.

    Raise `ValueError` for documents of counts, of which each row is a document.
    """
    num_tokens = activations.shape[1]
    if isinstance(activations, Counted):
        if name is not None or "documents" in arrays:
            raise ValueError(
                f"{arrays.source} holds counts [documents, layers, experts], each row of which is a "
                "document, so documents do not apply. Leave them out, and add up rows of one document."
            )
        return None
    values = arrays.optional("documents", name)
    return None if values is None else _checked(numbered(values, num_tokens, "documents", None), "documents")


def labels_and_factors(
    arrays: Arrays, name: str, names: str | None, num_tokens: int, documents: Classes | None
) -> tuple[Classes | None, dict[str, Ints]]:
    """Return the labels of tokens, or None, and the known factors: "token", "position" and "label".

    The factor "label" is the chosen labels. If these are the tokens or positions, it is the array "labels".
    """
    factors = factors_of(arrays, num_tokens)
    has_labels = name != TOKEN and (name != "labels" or name in arrays)
    if names is not None and not has_labels:
        raise ValueError(
            f"label_names={names!r} names labels, but {arrays.source} is measured by its tokens or without "
            "labels. Give labels, or leave out label_names. The texts of tokens are token_names."
        )
    if name == "labels" and not has_labels:
        if TOKEN not in arrays:
            return None, factors
        name = TOKEN
    classes = _checked(numbered(arrays.named(name), num_tokens, "labels", documents), "labels")
    if name not in (TOKEN, POSITIONS):
        factors["label"] = classes.numbers
    elif "labels" in arrays:
        factors["label"] = numbered(arrays["labels"], num_tokens, "labels", documents).numbers
    if name == TOKEN:
        return frequent_tokens(classes, as_names(arrays.get("token_names"))), factors
    is_usual = name == "labels" or "labels" not in arrays
    return Classes(classes.numbers, names_of_labels(arrays, classes, names, is_usual)), factors


def numbered(values: NDArray[Any], num_tokens: int, what: str, documents: Classes | None) -> Classes:
    """Return labels or documents as integers, with their names if they are text."""
    if values.ndim == 1 and len(values) != num_tokens:
        values = _spread(values, num_tokens, what, documents)
    if values.dtype.kind not in "US":
        return Classes(check_labels(values, num_tokens, what), None)
    names, numbers = np.unique(values, return_inverse=True)
    return Classes(check_labels(numbers, num_tokens, what), as_names(names))


def _checked(classes: Classes, what: str) -> Classes:
    """Return the classes, and warn of names that look like missing values."""
    for text in lost_names(what, classes.names or ()):
        warn(text)
    return classes


def _spread(values: NDArray[Any], num_tokens: int, what: str, documents: Classes | None) -> NDArray[Any]:
    """Return labels of tokens from labels of documents; `ValueError` if the number fits neither."""
    num_documents = 0 if documents is None else int(documents.numbers.max()) + 1
    more = len(values) - num_tokens
    if documents is not None and len(values) == num_documents:
        if documents.names is None:
            return values[documents.numbers]
        hint = "The number fits documents: number documents from 0, in the order of the labels."
    elif 0 < 4 * more <= num_tokens:
        hint = (
            f"There are {more} fewer tokens, because engines do not route the last token that they "
            "generate. If "
        )
        hint += "one is missing in each document, leave out the last token of each document here, too."
    else:
        hint = "Give one for every token, in the order of the tokens."
    raise ValueError(
        f"{what} have shape {values.shape}; expected ({num_tokens},): one for each token, or one for each "
        f"document of counts. {hint}"
    )


def factors_of(arrays: Arrays, num_tokens: int) -> dict[str, Ints]:
    """Return the arrays of the file for the factors "token" and "position"."""
    tokens = token_ids(arrays, TOKEN, num_tokens)
    factors = {} if tokens is None else {"token": tokens.numbers}
    if POSITIONS in arrays:
        factors["position"] = numbered(arrays[POSITIONS], num_tokens, POSITIONS, None).numbers
    return factors


def token_ids(arrays: Arrays, name: str, num_tokens: int) -> Classes | None:
    """Return the ids of tokens or of predicted tokens, or None if the file has none.

    Texts in place of ids are numbered, with one numbering for tokens and predicted tokens.
    """
    if name not in arrays:
        return None
    texts = [arrays[one].ravel() for one in (TOKEN, PREDICTED) if one in arrays]
    if len({one.dtype.kind in "US" for one in texts}) > 1:
        raise ValueError(
            f"{arrays.source} has texts and ids as {TOKEN} and {PREDICTED}; expected the same form of both."
        )
    classes = numbered(arrays[name], num_tokens, name, None)
    if classes.names is None or len(texts) == 1:
        return classes
    words = np.unique(np.concatenate(texts))
    return Classes(np.searchsorted(words, arrays[name]), as_names(words))


def words_of(arrays: Arrays, num_tokens: int) -> tuple[str, ...] | None:
    """Return the texts of tokens, indexed by id, or None if the file has none."""
    tokens = token_ids(arrays, TOKEN, num_tokens)
    return as_names(arrays.get("token_names")) if tokens is None or tokens.names is None else tokens.names


def predicted_of(arrays: Arrays, num_tokens: int) -> Ints | None:
    """Return the ids of predicted tokens `[tokens]`, or None if the file has none."""
    predicted = token_ids(arrays, PREDICTED, num_tokens)
    return None if predicted is None else predicted.numbers


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
    values = arrays.optional("spans", name) if are_of_use else None
    return None if values is None else numbered(values, num_tokens, "spans", None).numbers


def frequent_tokens(tokens: Classes, words: Sequence[str] | None) -> Classes:
    """Return tokens numbered by frequency; all rare tokens share the last number."""
    words = tokens.names or words
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
