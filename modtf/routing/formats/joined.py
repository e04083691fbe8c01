"""Join documents into the arrays of a routing. The formats of single requests share these functions."""

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.registry import Readers
from modtf.routing.measuring.layers import MOST_EXPERTS, as_array

NONE = -1  # stands for a missing expert
T = TypeVar("T")


@dataclass(frozen=True)
class Document:
    """The routing of one document."""

    place: str  # the document's location, for errors
    experts: NDArray[Any]  # [tokens, layers, k]; -1 for a missing expert
    tokens: NDArray[Any] | None = None  # the token ids [tokens]


def field(place: str, record: Any, name: str, axes: str, sizes: dict[str, int]) -> NDArray[Any]:
    """Return a field as an array; `ValueError` unless it has these axes, such as "batch length layers k".

    `sizes` are those of axes that are known already. Others are added, so that the fields of a record fit.
    """
    names = axes.split()
    if name not in record:
        raise ValueError(f"{place} lacks {name} [{', '.join(names)}]")
    array = as_array(record[name])
    words = [f"{sizes[one]} {one}" if one in sizes else one for one in names]
    pairs = zip(names, array.shape, strict=False)
    if array.ndim != len(names) or any(sizes.setdefault(one, size) != size for one, size in pairs):
        raise ValueError(f"{place} has {name} of shape {array.shape}; expected [{', '.join(words)}]")
    return array


def stacked(layers: Sequence[NDArray[Any]], what: str, axes: Sequence[str]) -> NDArray[Any]:
    """Return layers as one array; `ValueError` unless all have one shape, with one of these `axes`."""
    shapes = {layer.shape for layer in layers}
    if len(shapes) > 1 or layers[0].ndim not in [1 + one.count(",") for one in axes]:
        raise ValueError(f"{what} of the shapes {sorted(shapes)}; expected {' or '.join(axes)} in all layers")
    return np.stack(layers)


def get(thing: Any, name: str, default: Any = None) -> Any:
    """Return a field of a mapping, or an attribute of an object, or the default if it is missing or None."""
    value = thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)
    return default if value is None else value


def as_mask(values: Any, place: str) -> NDArray[np.bool_]:
    """Return an attention mask; `ValueError` unless it holds 0 and 1, as masks that are added do not."""
    array = as_array(values)
    if not np.isin(array, (0, 1)).all():
        raise ValueError(
            f"the attention_mask of {place} holds {array.min():g} to {array.max():g}; expected 1 for tokens "
            "and 0 for padding"
        )
    return array.astype(bool)


def as_experts(values: Any, place: str) -> NDArray[Any]:
    """Return experts with -1 for unwritten ones; `ValueError` unless they are integers on three axes."""
    array = as_array(values)
    if array.ndim != 3 or array.dtype.kind not in "iu" or 0 in array.shape[1:]:
        raise ValueError(
            f"{place} has experts of shape {array.shape} and type {array.dtype}; expected integers [tokens, "
            "layers, k]"
        )
    return _in_range(array, place)


def integers(values: Any, place: str) -> NDArray[Any]:
    """Return nested lists of experts as integers; `ValueError` if they hold anything else."""
    array = as_array(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{place} has experts of type {array.dtype}; expected integers")
    return _in_range(array.astype(np.int64) if not array.size else array, place)


def _in_range(array: NDArray[Any], place: str) -> NDArray[Any]:
    """Return experts as int32, or as they are if they are narrower; `ValueError` if they would wrap."""
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        is_none = array == np.iinfo(array.dtype).max
        array = np.where(is_none, NONE, np.where(is_none, 0, array).astype(np.int64))
    if array.size and not NONE <= array.min() <= array.max() < MOST_EXPERTS:
        wrong = array.min() if array.min() < NONE else array.max()
        raise ValueError(
            f"{place} holds the expert {wrong}; expected numbers from 0 to {MOST_EXPERTS - 1} (or -1: none)"
        )
    return array if array.dtype.itemsize == 1 else array.astype(np.int32)


def joined(documents: Sequence[Document], num_experts: int | None = None) -> Readers:
    """Return the arrays of documents, one after the other: experts, tokens, documents.

    Rows and columns without any expert are padding and are left out, with a warning.

    Raises:
        ValueError: if documents differ in layers, in experts per token, or in the fields that they have.
    """
    if not documents:
        raise ValueError("it holds no tokens")
    first = documents[0]
    for one in documents:
        if one.experts.shape[1:] != first.experts.shape[1:]:
            raise ValueError(
                f"{one.place} has experts of shape {one.experts.shape}, but {first.place} has "
                f"{first.experts.shape}; expected [tokens, layers, k] with the same layers and k"
            )
        if (one.tokens is None) != (first.tokens is None):
            raise ValueError(
                f"only one of {one.place} and {first.place} has tokens; expected both or neither"
            )
    experts = np.concatenate([one.experts for one in documents])
    arrays = {"documents": np.repeat(np.arange(len(documents)), [len(one.experts) for one in documents])}
    if first.tokens is not None:
        arrays["tokens"] = np.concatenate([as_array(one.tokens) for one in documents])
    empty = (experts == NONE).all(axis=(1, 2))
    if empty.any():
        warn(f"{int(empty.sum())} of {len(experts)} rows hold no choice of an expert. They are left out.")
    if empty.all():
        raise ValueError("it holds no tokens")
    arrays = {name: values[~empty] for name, values in arrays.items()}
    used = (experts != NONE).any(axis=(0, 1))
    arrays["experts"] = np.moveaxis(experts[~empty][..., used], 1, 0)
    return in_memory(arrays | ({} if num_experts is None else {"num_experts": np.array(num_experts)}))


def in_memory(arrays: dict[str, NDArray[Any]]) -> Readers:
    """Return readers of arrays that are in memory."""
    return {name: partial(np.asanyarray, values) for name, values in arrays.items()}


def warn(text: str) -> None:
    """Warn that data was left out or that something was assumed."""
    warnings.warn(text, stacklevel=2)


def without_copies(things: Sequence[T], key: Callable[[T], Hashable], words: str) -> list[T]:
    """Return the first of all things with the same key, and warn if there are others: "3 `words`"."""
    kept: dict[Hashable, T] = {}
    for one in things:
        kept.setdefault(key(one), one)
    if len(kept) < len(things):
        warn(f"{len(things) - len(kept)} {words}. They are left out.")
    return list(kept.values())
