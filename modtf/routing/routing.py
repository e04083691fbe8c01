"""What a router did with tokens, as its user saved it: gates, logits, or the experts of every token."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.arrays import Arrays
from modtf.routing.measuring import Experts
from modtf.routing.measuring.checks import BFLOAT16, Ints, as_layers, check_labels, from_bfloat16
from modtf.routing.names import Names

TOKEN = "tokens"
FREQUENT = 999  # tokens that are labels of their own
CHUNK = 2**16  # tokens between two steps of a progress bar


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
class Routing:
    """Activations `[layers, tokens, M]` or experts, the label of every token `[tokens]`, its document; names.

    Example:
        >>> routing = Routing.read("x.npz")  # doctest: +SKIP
        >>> layers = modtf.measure_activations(routing.chunks())  # doctest: +SKIP
        >>> write_routing_report(layers, "folder", routing.names)  # doctest: +SKIP
    """

    activations: NDArray[Any] | Sent
    labels: Ints
    documents: Ints | None
    names: Names
    factors: Mapping[str, Ints]  # what there is of token, position and label
    words: tuple[str, ...] | None = None  # of tokens, by their numbers

    @classmethod
    def read(
        cls,
        path: str | Path,
        activations: str = "activations",
        labels: str = "labels",
        documents: str | None = None,
        label_names: str | None = None,
        layer_names: str | None = None,
        experts: str | None = None,
        weights: str | None = None,
        num_experts: int | None = None,
        shared: Sequence[int] = (),
    ) -> "Routing":
        """Reads all but the activations, and checks the shapes of these.

        Args:
            path: see `Arrays`.
            activations: the name of the array of gates or logits, `[tokens, M]` or `[layers, tokens, M]`.
            labels: of integers from 0, or names, `[tokens]`: the name of an array, or an .npy file. Of
                "tokens", which are taken where there are no labels, the most frequent are told apart.
            documents: of integers from 0 or names, `[tokens]`; None: the array "documents", if there is one.
            label_names: of names, in the order of the numbers of labels; None: the array "label_names", if
                there is one and no array "labels" besides those that are taken.
            layer_names: of one name for each layer; None as above.
            experts: in place of activations, of the experts that tokens were sent to, `[tokens, k]` or
                `[layers, tokens, k]`; None: the array "experts", if there are no activations.
            weights: of what these weigh; None: the array "weights", if there is one.
            num_experts: E; None: as the array "num_experts" says.
            shared: experts that every token goes to, which are left out.

        Raises:
            ValueError: if one is missing or does not fit the others.
        """
        arrays = Arrays(path)
        if experts is None and activations not in arrays and "experts" in arrays:
            experts = "experts"
        if experts is None:
            given: NDArray[Any] | Sent = _gates(arrays, activations)
        else:
            number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
            if number is None or number.size != 1:
                raise ValueError(
                    "Give --num_experts=E (num_experts=E): those that no token was sent to cannot be seen."
                )
            given = Sent(
                _by_layer(_find(arrays, experts)),
                int(number.ravel()[0]),
                _by_layer(_find_optional(arrays, "weights", weights)),
                tuple(shared),
            )
            given[:, :0]  # refuses other shapes
        num_layers, num_tokens, _ = given.shape
        if labels not in arrays and labels == "labels" and TOKEN in arrays:
            labels = TOKEN
        classes, found = _numbers(_find(arrays, labels), num_tokens, "labels")
        words = _names(arrays.get("token_names"))
        factors = {
            factor: _numbers(arrays[name], num_tokens, name)[0]
            for factor, name in (("token", TOKEN), ("position", "positions"), ("label", "labels"))
            if name in arrays
        }
        if labels not in (*arrays, "labels"):
            factors["label"] = classes  # of a file of its own
        chosen = _find_optional(arrays, "documents", documents)
        ids_of_documents = None if chosen is None else _numbers(chosen, num_tokens, "documents")[0]
        names_of_labels = None
        if label_names is not None or labels == "labels" or "labels" not in arrays:  # else names are of those
            names_of_labels = _names(_find_optional(arrays, "label_names", label_names))
        if labels == TOKEN:
            classes, found, names_of_labels = *_frequent(classes, found or words), None
        if found is not None and names_of_labels is not None:
            raise ValueError("labels are names themselves; leave out label_names, or number the labels.")
        names_of_labels = found or names_of_labels
        if names_of_labels is not None and num_tokens and classes.max() >= len(names_of_labels):
            raise ValueError(
                f"labels go up to {classes.max()}, but there are {len(names_of_labels)} label_names; "
                f"expected at least {classes.max() + 1}: label i has the name label_names[i]."
            )
        names_of_layers = _names(_find_optional(arrays, "layer_names", layer_names))
        if names_of_layers is not None and len(names_of_layers) != num_layers:
            raise ValueError(
                f"There are {len(names_of_layers)} layer_names; expected {num_layers}, one a layer."
            )
        names = Names(names_of_labels, names_of_layers)
        return cls(given, classes, ids_of_documents, names, factors, words)

    def whole(self) -> NDArray[Any] | Experts:
        """All activations, as `measure_activations` takes them."""
        return self._of(slice(None))

    def _of(self, tokens: slice) -> NDArray[Any] | Experts:
        some = self.activations[:, tokens]
        return some if isinstance(some, Experts) else from_bfloat16(some)

    def check_label_probs(self, probs: Sequence[float] | str | None) -> None:
        """Raises `ValueError` unless there is one for each label that occurs, and they sum to 1."""
        if probs is None or isinstance(probs, str):
            return
        num_labels = len(np.unique(self.labels))
        if len(probs) != num_labels:
            raise ValueError(
                f"There are {len(probs)} label_probs; expected {num_labels}, one a label that occurs."
            )
        if not (min(probs) >= 0 and abs(sum(probs) - 1.0) < 1e-6):
            raise ValueError(f"label_probs sum to {sum(probs):.6g}; expected numbers from 0 that sum to 1.")

    @property
    def num_chunks(self) -> int:
        """How many chunks there are."""
        return -(-len(self.labels) // CHUNK)

    def chunks(self) -> Iterator[tuple[NDArray[Any] | Experts, Ints, Ints | None]]:
        """(activations, labels, documents or None) of some tokens after others."""
        for start in range(0, len(self.labels), CHUNK):
            part = slice(start, start + CHUNK)
            ids = None if self.documents is None else self.documents[part]
            yield self._of(part), self.labels[part], ids


def _by_layer(array: Any) -> Any:
    return array[np.newaxis] if array is not None and array.ndim == 2 else array


def _gates(arrays: Arrays, name: str) -> NDArray[Any]:
    """Gates or logits `[layers, tokens, M]`."""
    given = _find(arrays, name)
    if given.dtype.kind not in "fiub" and given.dtype != BFLOAT16:
        raise ValueError(f"The array {name!r} of {arrays.path} is of type {given.dtype}; expected numbers.")
    as_layers(given[..., :0, :].astype(np.float32) if given.ndim > 1 else given)  # refuses other shapes
    return _by_layer(given)


def _find(arrays: Arrays, name: str) -> NDArray[Any]:
    """The array of that name, or of that file."""
    if name in arrays:
        return arrays[name]
    if name.endswith(".npy"):
        return Arrays(name)["activations"]
    raise ValueError(
        f"There is no array {name!r} in {arrays.path}; there are {', '.join(arrays) or 'none at all'}. Say "
        "which one it is, or give an .npy file of its own."
    )


def _find_optional(arrays: Arrays, usual: str, name: str | None) -> NDArray[Any] | None:
    if name is not None:
        return _find(arrays, name)
    return arrays.get(usual)


def _numbers(values: NDArray[Any], num_tokens: int, what: str) -> tuple[Ints, tuple[str, ...] | None]:
    """Labels or documents as integers, and the names that they were given as."""
    if values.dtype.kind not in "US":
        return check_labels(values, num_tokens, what), None
    names, numbers = np.unique(values, return_inverse=True)
    return check_labels(numbers, num_tokens, what), _names(names)


def _frequent(tokens: Ints, words: Sequence[str] | None) -> tuple[Ints, tuple[str, ...]]:
    """Tokens numbered by how frequent they are, the rare ones as one; what these are called."""
    ids, place, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:FREQUENT]
    number = np.full(len(ids), len(order))
    number[order] = np.arange(len(order))
    names = [str(one) if words is None else words[one] for one in ids[order].tolist()]
    return number[place], (*names, *["other tokens"] * (len(ids) > len(order)))


def _names(values: NDArray[Any] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    return tuple(value.decode() if isinstance(value, bytes) else str(value) for value in values.ravel())
