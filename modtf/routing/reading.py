"""Steps of reading what a router did: gates, experts or counts, checked."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.base.checks import check_integer
from modtf.routing.formats.joined import warn
from modtf.routing.formats.registry import FORMATS, Arrays
from modtf.routing.measuring.activations import Counted
from modtf.routing.measuring.layers import BFLOAT16, MOST_EXPERTS, Experts, Gates, Ints, layers_of
from modtf.routing.measuring.tokens import check_labels, lost_names, mismatch, spread_labels

GATES = "activations"  # the usual name; without this array, experts or counts are read
ARRAYS = ("npz", "npy", "safetensors", "mapping")  # formats with user-defined axes, which may be swapped
MASKS = ("attention_mask", "padding_mask", "mask")  # arrays that are not applied
OF_LAYERS = ("layer", "layer_id", "layer_idx", "layer_index")  # columns of tables with a row for each layer
TOKEN = "tokens"
PREDICTED = "predicted_tokens"
FREQUENT = 999  # each of this many most frequent tokens gets its own label
POSITIONS = "positions"


def counted(arrays: Arrays, num_experts: int | None, shared: Sequence[int]) -> Counted:
    """Return counts `[documents, layers, experts]`."""
    if arrays["counts"].ndim != 3:
        raise ValueError(
            f"The array 'counts' of {arrays.source} has shape {arrays['counts'].shape}; expected [documents, "
            "layers, experts]. Give counts[:, np.newaxis] for [documents, experts] of one layer, and "
            "counts[np.newaxis] for [layers, experts] of one document."
        )
    try:
        counts = Counted(arrays["counts"]).counts
    except ValueError as error:
        raise ValueError(f"{arrays.source}: {error}") from error
    common = max(int(np.gcd.reduce(counts, axis=None)), 1)
    if common > 1:
        warn(
            f"All counts are multiples of {common}, as if each token was counted {common} times. They are "
            f"divided by {common}."
        )
    counts = counts // common
    totals = counts[:, counts.any(axis=(0, 2))].sum(axis=2)  # dense layers have zeros
    if not totals.any():
        raise ValueError(f"The array 'counts' of {arrays.source} holds no choice of an expert.")
    if (totals != totals[:, :1]).any():
        warn(
            f"The layers of a document count {totals.min()} to {totals.max()} choices. Tokens were dropped, "
            "or the axes are not [documents, layers, experts]."
        )
    known = one_integer("top_k", arrays["top_k"]) if "top_k" in arrays else None
    top_k = arrays.source.top_k
    if known is not None and top_k not in (None, known):
        raise ValueError(
            f"--top_k={top_k} (top_k={top_k}) is not valid; expected {known}, which the counts were read "
            "with. Leave it out."
        )
    size = counts.shape[2]
    number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
    if number is not None:  # experts that received no token may be missing in the file
        all_experts = one_integer("num_experts", number)
        if all_experts < size:
            raise ValueError(
                f"{arrays.source} counts {size} experts, but num_experts is {all_experts}; expected at "
                f"least {size}, because experts are numbered from 0."
            )
        counts = np.pad(counts, ((0, 0), (0, 0), (0, all_experts - size)))
    elif FORMATS[arrays.format].lists_only_chosen:
        warn(
            f"{arrays.source} lists only experts that were chosen, so {size} experts are assumed, from "
            "the highest number. Give --num_experts=E (num_experts=E)."
        )
    return Counted(counts, top_k if known is None else known, shared)


def one_integer(name: str, values: NDArray[Any]) -> int:
    """Return the number in an array; `ValueError` unless it is one integer of a possible size."""
    if values.size != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"{name} is {reprlib.repr(values.tolist())}; expected one integer, such as 8.")
    return check_integer(name, int(values.ravel()[0]), 1, MOST_EXPERTS)


def routed(
    arrays: Arrays, activations: str, experts: str | None, weights: str | None, num_experts: int | None,
    shared: Sequence[int], from_logits: bool, top_k: int | None,
) -> Gates | Experts | Counted:  # fmt: skip
    """Return the array that is asked for, or else the first that exists of gates, experts and counts.

    `ValueError` for `from_logits` or `top_k` of experts or counts, which have their own k.
    """
    if experts is None and activations == GATES and GATES not in arrays:
        if "experts" in arrays:
            experts = "experts"
        elif "counts" in arrays:
            _refuse_weights(arrays, weights=weights)
            if from_logits:
                raise ValueError("This routing holds counts of chosen experts. Leave out from_logits=True.")
            return counted(arrays, num_experts, shared)
    if experts is None:
        _refuse_weights(arrays, num_experts=num_experts, weights=weights, shared=shared)
        if "top_k" in arrays and arrays["top_k"].size == 1 and arrays.source.top_k is None:
            k = one_integer("top_k", arrays["top_k"])
            warn(f"{arrays.source} holds top_k = {k}, which is not used. Give --top_k={k} (top_k={k}).")
        found = gates(arrays, activations, from_logits, top_k)
        if "experts" in arrays and activations == GATES and arrays.format in ARRAYS:
            warn(
                f"{arrays.source} holds gates and experts. The gates are measured, and the experts are not "
                "used. Give --experts=experts (experts='experts') to measure the experts."
            )
        return found
    chosen = chosen_experts(arrays, experts, weights, num_experts, shared)
    layers_of(chosen, from_logits, top_k)  # raises an error if these are not valid
    return chosen


def _refuse_weights(arrays: Arrays, **arguments: Any) -> None:
    """Raise `ValueError` for an argument that applies to chosen experts only."""
    for name, value in arguments.items():
        if value is not None and np.size(value):
            raise ValueError(
                f"{arrays.source}: --{name} applies to chosen experts, but the file holds "
                f"{'counts' if 'counts' in arrays else 'gates'}. Leave {name} out, or name the array of "
                "experts by --experts=NAME (experts=NAME)."
            )


def gates(arrays: Arrays, name: str, from_logits: bool, top_k: int | None) -> Gates:
    """Return gates or logits, of which there are more tokens than layers and modules."""
    values = arrays.named(name)
    if values.dtype.kind not in "fiub" and values.dtype != BFLOAT16:
        raise ValueError(
            f"The array {name!r} of {arrays.source} is of type {values.dtype}; expected numbers."
        )
    found = Gates(values, from_logits, top_k)
    layers, tokens, modules = found.shape
    if 0 < tokens < max(layers, modules):
        fewer = "modules" if tokens < modules else "layers"
        raise ValueError(
            f"The array {name!r} of {arrays.source} has shape {values.shape}, with fewer tokens than "
            f"{fewer}. Transpose it if these axes are swapped; otherwise measure more tokens."
        )
    return found


def chosen_experts(
    arrays: Arrays, experts: str, weights: str | None, num_experts: int | None, shared: Sequence[int]
) -> Experts:
    """Return the experts of tokens `[layers, tokens, k]`."""
    number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
    if number is None:
        raise ValueError(
            "Give --num_experts=E (num_experts=E), because experts that received no token do not appear in "
            "the array."
        )
    # of two arrays of experts, the one that is not named "experts" does not own the array "weights"
    owned = weights is not None or experts == "experts" or "experts" not in arrays
    mass = arrays.optional("weights", weights) if owned else None
    size = one_integer("num_experts", number)
    ids = _by_layer(arrays.named(experts))
    layers, tokens, k = ids.shape if ids.ndim == 3 else (1, 1, 1)  # other shapes are refused below
    if "top_k" in arrays and one_integer("top_k", arrays["top_k"]) > k:
        raise ValueError(
            f"{arrays.source} has {k} experts for each token, but top_k = {arrays['top_k'].ravel()[0]}; "
            "expected all choices, with -1 for a dropped one."
        )
    if k > size or (arrays.format in ARRAYS and 0 < tokens < layers):
        raise ValueError(
            f"The array {experts!r} of {arrays.source} has {layers} layers, {tokens} tokens and {k} choices "
            f"of {size} experts. Transpose it if axes are swapped, to [layers, tokens, k]; "
            "vLLM and others have [tokens, layers, k]."
        )
    return Experts(ids, size, None if mass is None else _by_layer(mass), shared)


def _by_layer(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array `[tokens, ...]` or `[layers, tokens, ...]` with an axis of layers."""
    return values[np.newaxis] if values.ndim == 2 else values


def check_rows(arrays: Arrays, num_tokens: int) -> None:
    """Warn of a mask that is not applied. Raise `ValueError` if a row is one layer of a token."""
    for name in (*MASKS, *OF_LAYERS):
        values = arrays[name].ravel() if name in arrays else np.zeros(0)
        if len(values) != num_tokens or (values == values[0]).all():
            continue
        if name in OF_LAYERS:
            raise ValueError(
                f"The array {name!r} of {arrays.source} says that rows belong to {len(np.unique(values))} "
                "layers; expected a row for each token, with all of its layers: [layers, k], or arrays "
                "[layers, tokens, k]."
            )
        warn(
            f"The array {name!r} of {arrays.source} is 0 for {np.count_nonzero(values == 0)} of {num_tokens} "
            "tokens, but all tokens are counted. Leave out padding."
        )


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
) -> tuple[Classes, dict[str, Ints | None]]:
    """Return the labels of tokens, and the factors "token", "position" and "label"; None for an unknown one.

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
        return Classes(), factors
    name = name if has_labels else TOKEN
    classes = _warned(numbered(arrays.named(name), num_tokens, "labels", documents), "labels")
    if name not in (TOKEN, POSITIONS):
        factors["label"] = classes.numbers
    elif "labels" in arrays:
        factors["label"] = numbered(arrays["labels"], num_tokens, "labels", documents).numbers
    if name == TOKEN:
        return frequent_tokens(classes, as_names(arrays.get("token_names"))), factors
    is_usual = name == "labels" or "labels" not in arrays
    return Classes(classes.numbers, names_of_labels(arrays, classes, names, is_usual)), factors


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

    Texts in place of ids are numbered: those of tokens first, then those that were only predicted.
    """
    texts = [arrays[one].ravel() for one in (TOKEN, PREDICTED) if one in arrays]
    if len({one.dtype.kind in "US" for one in texts}) > 1:
        raise ValueError(
            f"{arrays.source} has texts and ids as {TOKEN} and {PREDICTED}; expected the same form of both."
        )
    classes = numbered(arrays.get(name), num_tokens, name)
    if classes.names is None or len(texts) == 1:
        return classes
    words = np.unique(texts[0])
    words = np.append(words, np.setdiff1d(texts[1], words))
    order = words.argsort()
    return Classes(order[words[order].searchsorted(arrays[name])], as_names(words))


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
