"""One check of the rows of a routing, for all formats and the recorder.

It finds rows that no router wrote, layers that repeat another one, and documents that occur again.
"""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
PART = 2**16  # tokens that are compared at a time
FEW = 64  # tokens that are compared first, because they usually differ already
LONG = 8  # tokens of a run, or of a document, from which on its repetition is judged
RARE = 0.01  # the expected number of runs below which a run is not chance
MOST = 0.7  # of the tokens may be left out as stale
CLEAR = 10  # times as many rows as chance and other experts explain


def kept_rows(
    layers: Sequence[NDArray[Any]], documents: Ints | None = None, tokens: Ints | None = None
) -> Bools:
    """Return which tokens to measure, `[tokens]`. Warn of those that are left out or may be wrong.

    Left out are rows that are filled with 0, or with 0 to k - 1, and runs of one row, if this is so in all
    layers, and documents with which a longer document begins, if token ids are known. Layers with one row for
    all tokens are placeholders and do not count.

    Args:
        layers: for each layer the experts `[tokens, k]` or the gates `[tokens, M]`.
        documents: the document of every token, or None.
        tokens: the id of every token, or None.
    """
    layers = [layer.view(np.uint16) if layer.dtype.kind == "V" else layer for layer in layers]  # bfloat16
    keep = np.ones(len(layers[0]), bool)
    written = [number for number, layer in enumerate(layers) if not _is_constant(layer)]
    if not written:
        return keep
    _warn_of_copies(layers, written)
    layers = [layers[number] for number in written]
    if documents is not None and (again := _again(layers, documents, tokens)).any():
        keep = ~again
        layers = [layer[keep] for layer in layers]
    numbers = np.flatnonzero(keep)
    keep[numbers[_runs(layers, numbers)]] = False
    if layers[0].dtype.kind in "iu" and len(layers) > 1:
        keep[numbers[_filled(layers)]] = False
    return keep


def _is_constant(layer: NDArray[Any]) -> bool:
    return all(bool((layer[part] == layer[:1]).all()) for part in (slice(FEW), slice(None)))


def _where(layer: NDArray[Any], some: Ints | None, value: Any) -> Ints:
    """Return those of `some` tokens (None: of all) whose row is `value`, or with None the row before."""
    found = []
    for start in range(0, len(layer) if some is None else len(some), PART):
        part = np.arange(start, min(start + PART, len(layer))) if some is None else some[start : start + PART]
        part = part[part > 0] if value is None else part
        rows = layer[part]
        found.append(part[(rows == (layer[part - 1] if value is None else value)).all(axis=1)])
    return np.concatenate([*found, np.zeros(0, np.int64)])


def _in_all(layers: Sequence[NDArray[Any]], value: Any) -> Ints:
    """Return the tokens whose row is `value`, or with None the row before, in all layers."""
    some = None
    for layer in layers:
        some = _where(layer, some, value)
    return np.zeros(0, np.int64) if some is None else some


def _warn_of_copies(layers: Sequence[NDArray[Any]], written: Sequence[int]) -> None:
    for place, number in enumerate(written):
        layer = layers[number]
        same = (one for one in written[:place] if layers[one].shape == layer.shape and len(layer) >= LONG)
        for other in same:
            if all((layer[part] == layers[other][part]).all() for part in (slice(FEW), slice(None))):
                _warn(
                    f"Layers {other} and {number} have the same row for every token, as if one layer was "
                    "written twice. Record each layer once."
                )
                return


def _runs(layers: Sequence[NDArray[Any]], numbers: Ints) -> Ints:
    """Return the tokens of long runs of one row, as a stale buffer gives; `numbers` are those of the tokens.

    A router that often repeats a row has many short runs; their share says how rare long ones are. A router
    with few different rows comes back to several of them. Such runs are named and kept.
    """
    repeats = _in_all(layers, None)
    first = np.flatnonzero(np.diff(repeats, prepend=-1) != 1)
    lengths = np.diff([*first, len(repeats)]) + 1
    runs = np.delete(np.arange(len(numbers)), repeats)  # the first token of each run, also of one token
    rare = (lengths >= LONG) & (len(numbers) * (len(first) / len(runs)) ** (lengths - 1.0) < RARE)
    starts, lengths = repeats[first[rare]] - 1, lengths[rare]
    if not len(starts):
        return starts
    rows = _hashes(layers, runs)
    values, counts = np.unique(rows, return_counts=True)
    come_back = np.isin(values, rows[np.searchsorted(runs, starts)]) & (counts > 1)
    is_clear = come_back.sum() < 2 and lengths.sum() <= MOST * len(numbers)
    listed = ", ".join(
        f"{numbers[a]} to {numbers[a + n - 1]}" for a, n in zip(starts[:3], lengths, strict=False)
    )
    _warn(
        f"{lengths.sum()} of {len(numbers)} tokens repeat one row in all layers ({len(layers)}), as stale "
        f"rows of a buffer do: tokens {listed}{', ...' * (len(starts) > 3)}. "
        + ("They are left out." if is_clear else "They are counted. If they are stale, leave them out.")
    )
    if not is_clear:
        return starts[:0]
    return np.concatenate([np.arange(a, a + n) for a, n in zip(starts, lengths, strict=True)])


def _hashes(layers: Sequence[NDArray[Any]], some: Ints) -> NDArray[np.uint64]:
    """Return a number for the rows of each token that differs if these differ."""
    random = np.random.default_rng(0)
    total = np.zeros(len(some), np.uint64)
    for layer in layers:
        kind = np.float64 if layer.dtype.kind == "f" else np.int64
        factors = random.integers(2**63, size=layer.shape[1], dtype=np.uint64)
        total += (layer[some].astype(kind).view(np.uint64) * factors).sum(axis=1)
    return total


def _filled(layers: Sequence[NDArray[Any]]) -> Ints:
    """Return the tokens with the experts 0, ..., 0 or 0, ..., k - 1 in all layers, as padding has.

    The first repeats an expert, so it is never a choice of several. Otherwise the rows are left out if layers
    that choose independently, or tokens with the same experts in all layers, do not explain them.
    """
    num_tokens, k = layers[0].shape
    if any(layer.shape[1] != k for layer in layers):
        return np.zeros(0, np.int64)
    found = [_in_all(layers, np.zeros(k, int))] if k > 1 else [np.zeros(0, np.int64)]
    if number := len(found[0]):
        _warn(
            f"{number} of {num_tokens} rows hold expert 0 in all choices, as padding does. They are left out."
        )
    some = _in_all(layers, np.arange(k))
    shares = (
        [len(_where(layer, None, np.arange(k))) / num_tokens for layer in layers] if len(some) > 3 else []
    )
    chance = num_tokens * np.prod(shares)
    if len(some) > 3 + 3 * chance:
        alike = sum(
            int(np.all([layer[part] == layers[0][part] for layer in layers[1:]], axis=(0, 2)).sum())
            for part in _parts(num_tokens)
        )
        is_clear = len(some) >= CLEAR * max(chance, alike - len(some))
        words = "expert 0" if k == 1 else f"the experts 0 to {k - 1}"
        done = "They are left out." if is_clear else "They are counted. If they are padding, leave them out."
        _warn(
            f"{len(some)} of {num_tokens} rows have {words} in all {len(layers)} layers, as padding and "
            f"unwritten rows do. {done}"
        )
        found += [some] if is_clear else []
    return np.concatenate(found)


def _parts(num_tokens: int) -> Iterator[slice]:
    yield from (slice(start, start + PART) for start in range(0, num_tokens, PART))


def _again(layers: Sequence[NDArray[Any]], documents: Ints, tokens: Ints | None) -> Bools:
    """Return the tokens of documents with which another one begins, or warn if only rows show it.

    A conversation that is returned at every turn gives such documents, and its tokens count several times.
    """
    order = np.argsort(documents, kind="stable")
    starts = np.flatnonzero(np.diff(documents[order], prepend=-1))
    keys = (layers[0] if tokens is None else tokens)[order]
    width = keys.itemsize * (keys.size // len(keys))
    texts = [(part.tobytes(), places) for part, places in zip(np.split(keys, starts[1:]),
             np.split(order, starts[1:]), strict=True)]  # fmt: skip
    texts.sort(key=lambda text: text[0])  # a document stands right before those that begin with it
    again = np.zeros(len(documents), bool)
    number = 0
    for (text, places), (other, others) in itertools.pairwise(texts):
        is_long = len(text) >= LONG * width and other.startswith(text)
        is_long = is_long and (tokens is not None or _is_varied(layers[0][places]))
        if is_long and _agree(layers, places, others[: len(places)], 1.0 if tokens is None else 0.5):
            again[places] = True
            number += 1
    if not number:
        return again
    words = f"{number} of {len(texts)} documents are the beginning of another, as "
    words += "in conversations that are returned at every turn. "
    if tokens is None:
        _warn(f"{words}Their tokens count several times. Leave out all but the longest of each conversation.")
        return np.zeros(len(documents), bool)
    _warn(f"{words}They are left out; the longest document is kept.")
    return again


def _is_varied(rows: NDArray[Any]) -> bool:
    """Return whether a document has enough different rows to be recognised by them."""
    return len(np.unique(rows, axis=0)) >= LONG // 2


def _agree(layers: Sequence[NDArray[Any]], some: Ints, others: Ints, share: float) -> bool:
    """Return whether at least this share of the rows of two documents agree; rounding changes a few."""
    equal = []
    for layer in layers:
        a, b = layer[some], layer[others]
        if share < 1.0:
            a, b = (np.sort(x, axis=1) if x.dtype.kind in "iu" else x.argmax(1)[:, None] for x in (a, b))
        equal.append((a == b).all(axis=1).mean())
    return float(np.mean(equal)) >= share


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)
