"""Steps of reading a routing: each takes the arrays of a file and returns one part, checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.checks import check_integer
from modtf.routing.counted import Counted
from modtf.routing.formats.arrays import Arrays
from modtf.routing.formats.joined import whole_number
from modtf.routing.measuring import Experts
from modtf.routing.measuring.checks import BFLOAT16, Ints, check_labels
from modtf.routing.measuring.experts import MOST_EXPERTS

ARRAYS = ("npz", "npy", "safetensors", "mapping")  # formats whose axes anyone may have chosen
TOKEN = "tokens"
FREQUENT = 999  # tokens that are labels of their own
FACTORS = (("token", TOKEN), ("position", "positions"), ("label", "labels"))
SHAPES = "expected [tokens, {last}] or [layers, tokens, {last}]"


@dataclass(frozen=True)
class Sent:
    """Where tokens were sent: see `Experts`."""

    experts: NDArray[Any]
    num_experts: int
    weights: NDArray[Any] | None
    shared: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """[layers, tokens, E]"""
        return (*self.experts.shape[:2], self.num_experts)

    def __getitem__(self, part: tuple[slice, slice]) -> Experts:
        weights = None if self.weights is None else self.weights[part]
        return Experts(self.experts[part], self.num_experts, weights, self.shared)


@dataclass(frozen=True)
class Classes:
    """Labels, documents or another numbering of tokens `[tokens]`, and the names that they came with."""

    numbers: Ints
    names: tuple[str, ...] | None


def routed(
    arrays: Arrays, activations: str, experts: str | None, weights: str | None, num_experts: int | None,
    shared: Sequence[int],
) -> NDArray[Any] | Sent | Counted:  # fmt: skip
    """Return gates, logits, experts or counts: what is asked for, or what there is, in this order."""
    if experts is None and activations not in arrays:
        if "experts" in arrays:
            experts = "experts"
        elif "counts" in arrays:
            return counted(arrays, shared)
    if experts is None:
        return gates(arrays, activations)
    return sent(arrays, experts, weights, num_experts, shared)


def counted(arrays: Arrays, shared: Sequence[int]) -> Counted:
    """Return counts `[documents, layers, experts]`; `[layers, experts]` are those of one document."""
    values = arrays["counts"]
    counts = whole_number(values[np.newaxis] if values.ndim == 2 else values, f"{arrays.source}")
    if counts.ndim != 3 or 0 in counts.shape:
        raise ValueError(
            f"The array 'counts' of {arrays.source} has shape {values.shape}; expected [documents, layers, "
            "experts]."
        )
    top_k = arrays.source.top_k if "top_k" not in arrays else int(arrays["top_k"])
    return Counted(counts, top_k, shared)


def gates(arrays: Arrays, name: str) -> NDArray[Any]:
    """Return gates or logits `[layers, tokens, M]`."""
    values = named_array(arrays, name)
    if values.dtype.kind not in "fiub" and values.dtype != BFLOAT16:
        raise ValueError(
            f"The array {name!r} of {arrays.source} is of type {values.dtype}; expected numbers."
        )
    layers = by_layer(arrays, name, values, "modules")
    if layers.shape[2] > layers.shape[1]:
        raise ValueError(
            f"The array {name!r} of {arrays.source} has shape {values.shape}: fewer tokens than modules. "
            "Transpose it if these axes are swapped; else measure more tokens."
        )
    return layers


def sent(
    arrays: Arrays, experts: str, weights: str | None, num_experts: int | None, shared: Sequence[int]
) -> Sent:
    """Return the experts of tokens `[layers, tokens, k]`."""
    number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
    if number is None:
        raise ValueError(
            "Give --num_experts=E (num_experts=E): those that no token was sent to cannot be seen."
        )
    if number.size != 1 or number.dtype.kind not in "iu":
        raise ValueError(f"num_experts is {number.tolist()!r}; expected one integer, such as 64.")
    mass = optional_array(arrays, "weights", weights)
    found = Sent(
        by_layer(arrays, experts, named_array(arrays, experts), "k"),
        check_integer("num_experts", int(number.ravel()[0]), 1, MOST_EXPERTS),
        None if mass is None else by_layer(arrays, weights or "weights", mass, "k"),
        tuple(shared),
    )
    found[:, :0]  # refuses other types and shapes
    layers, tokens, k = found.experts.shape
    if k > found.num_experts or (arrays.format in ARRAYS and tokens < layers):
        raise ValueError(
            f"The array {experts!r} of {arrays.source} has {layers} layers, {tokens} tokens and {k} choices "
            "of "
            f"{found.num_experts} experts. Transpose it if axes are swapped, to [layers, tokens, k]; vLLM "
            "and "
            "others have [tokens, layers, k]."
        )
    return found


def by_layer(arrays: Arrays, name: str, values: NDArray[Any], last: str) -> NDArray[Any]:
    """Return the array as `[layers, tokens, ...]`; `ValueError` on another shape, or without tokens."""
    if values.ndim not in (2, 3) or 0 in (values.shape[0], values.shape[-1]):
        raise ValueError(
            f"The array {name!r} of {arrays.source} has shape {values.shape}; {SHAPES.format(last=last)}. "
            f"Flatten batch and sequence into tokens: {name}.reshape(-1, {last})."
        )
    layers = values[np.newaxis] if values.ndim == 2 else values
    if layers.shape[1] == 0:
        raise ValueError(f"The array {name!r} of {arrays.source} has shape {values.shape}: it has no tokens.")
    return layers


def documents_of(
    arrays: Arrays, name: str | None, activations: NDArray[Any] | Sent | Counted
) -> Classes | None:
    """Return the document of every token, or None if the file does not say."""
    if isinstance(activations, Counted):
        return Classes(activations.documents, None)
    num_tokens = activations.shape[1]
    values = optional_array(arrays, "documents", name)
    return None if values is None else numbered(values, num_tokens, "documents", None)


def labels_and_factors(
    arrays: Arrays, name: str, names: str | None, num_tokens: int, documents: Classes | None
) -> tuple[Classes | None, dict[str, Ints]]:
    """Return the labels of tokens, or None if there are none, and what is known of token, position, label."""
    factors = factors_of(arrays, num_tokens, documents)
    if name == "labels" and name not in arrays:
        if TOKEN not in arrays:
            return None, factors
        name = TOKEN
    classes = numbered(named_array(arrays, name), num_tokens, "labels", documents)
    if name not in arrays:  # of a file of its own
        factors["label"] = classes.numbers
    if name == TOKEN:
        return frequent_tokens(classes, as_names(arrays.get("token_names"))), factors
    is_usual = name == "labels" or "labels" not in arrays
    return Classes(classes.numbers, names_of_labels(arrays, classes, names, is_usual)), factors


def numbered(values: NDArray[Any], num_tokens: int, what: str, documents: Classes | None) -> Classes:
    """Return labels or documents as integers, and the names that they were given as."""
    if values.ndim == 1 and len(values) != num_tokens:
        values = _spread(values, num_tokens, what, documents)
    if values.dtype.kind not in "US":
        return Classes(check_labels(values, num_tokens, what), None)
    names, numbers = np.unique(values, return_inverse=True)
    return Classes(check_labels(numbers, num_tokens, what), as_names(names))


def _spread(values: NDArray[Any], num_tokens: int, what: str, documents: Classes | None) -> NDArray[Any]:
    """Return labels of tokens from labels of documents; `ValueError` if they are of neither."""
    num_documents = 0 if documents is None else int(documents.numbers.max()) + 1
    more = len(values) - num_tokens
    if documents is not None and len(values) == num_documents:
        if documents.names is None:
            return values[documents.numbers]
        hint = "There is one for each document: number documents from 0, in the order of the labels."
    elif 0 < 4 * more <= num_tokens:
        hint = f"There are {more} fewer tokens: engines do not route the last token that they generate. If "
        hint += "one is missing in each document, leave its last token out of the others, too."
    else:
        hint = "Give one for every token, in the order of the tokens."
    raise ValueError(f"{what} have shape {values.shape}; expected ({num_tokens},), one a token. {hint}")


def factors_of(arrays: Arrays, num_tokens: int, documents: Classes | None) -> dict[str, Ints]:
    """Return what the file knows of token, position and label."""
    return {
        factor: numbered(arrays[name], num_tokens, name, documents if name == "labels" else None).numbers
        for factor, name in FACTORS
        if name in arrays
    }


def frequent_tokens(tokens: Classes, words: Sequence[str] | None) -> Classes:
    """Return tokens numbered by how frequent they are, the rare ones as one."""
    words = tokens.names or words
    ids, place, counts = np.unique(tokens.numbers, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:FREQUENT]
    number = np.full(len(ids), len(order))
    number[order] = np.arange(len(order))
    names = [str(one) if words is None else words[one] for one in ids[order].tolist()]
    return Classes(number[place], (*names, *["other tokens"] * (len(ids) > len(order))))


def names_of_labels(
    arrays: Arrays, classes: Classes, name: str | None, is_usual: bool
) -> tuple[str, ...] | None:
    """Return the names of labels. The array "label_names" is that of the usual labels only."""
    names = as_names(optional_array(arrays, "label_names", name)) if is_usual or name is not None else None
    if classes.names is not None and names is not None:
        raise ValueError("labels are names themselves; leave out label_names, or number the labels.")
    names = classes.names or names
    if names is not None and classes.numbers.max() >= len(names):
        raise ValueError(
            f"labels go up to {classes.numbers.max()}, but there are {len(names)} label_names; "
            f"expected at least {classes.numbers.max() + 1}: label i has the name label_names[i]."
        )
    return names


def layer_names(arrays: Arrays, name: str | None, num_layers: int) -> tuple[str, ...] | None:
    """Return one name for each layer, or None."""
    names = as_names(optional_array(arrays, "layer_names", name))
    if names is not None and len(names) != num_layers:
        raise ValueError(f"There are {len(names)} layer_names; expected {num_layers}, one a layer.")
    return names


def named_array(arrays: Arrays, name: str) -> NDArray[Any]:
    """Return the array of that name, or of that file."""
    if name in arrays:
        return arrays[name]
    if name.endswith(".npy"):
        return Arrays(name)["activations"]
    raise ValueError(
        f"There is no array {name!r} in {arrays.source}; there are {', '.join(arrays) or 'none at all'}. Say "
        "which one it is, or give an .npy file of its own."
    )


def optional_array(arrays: Arrays, usual: str, name: str | None) -> NDArray[Any] | None:
    """Return the array that was asked for, or the one of the usual name if there is one."""
    return named_array(arrays, name) if name is not None else arrays.get(usual)


def as_names(values: NDArray[Any] | None) -> tuple[str, ...] | None:
    """Return names as text."""
    if values is None:
        return None
    return tuple(value.decode() if isinstance(value, bytes) else str(value) for value in values.ravel())
