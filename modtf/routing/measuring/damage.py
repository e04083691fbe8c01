"""Find damaged rows: placeholders, stale and padded rows, repeated experts, layers and documents."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.measuring.layers import TOLERANCE, ExpertLayer, Ints, Layer

FEW = 64  # rows that are compared first, because they usually differ already
ENOUGH = 64  # tokens: with so many, an expert that all of them chose is no chance
ONE_ASSUMED = (
    "The number k of experts per token is not given, so one is assumed: hard assignment counts the largest "
    "gate of each token. If the router chooses several, give --top_k=K (top_k=K)."
)
Bools = NDArray[np.bool_]
PART = 2**16  # tokens that are compared at a time
LONG = 8  # tokens of a run, or of a document, from which on its repetition is judged
RARE = 0.01  # the expected number of runs below which a run is not chance
MOST = 0.7  # of the tokens may be left out as stale
CLEAR = 10  # times as many rows as chance and other experts explain


class Watch:
    """The observations of one layer's rows."""

    def __init__(self, number: int):
        self.number = number
        # All rows are equal, as in the placeholders that some formats write for dense layers.
        self.alike = True
        self.softmaxed = True  # logits look like probabilities or sigmoid gates: all are between 0 and 1
        self.have_several = False  # some token has a gate above 0 for several modules
        self.has_negative = False  # scores of all experts, given as weights, are negative for some expert
        self.num_tokens = 0
        self.num_flat = 0  # tokens with the same value, except for gates of 0, for all modules
        self.num_unsorted = 0  # tokens that chose all experts, sorted neither by number nor by weight
        self.num_experts = 0  # E, if tokens choose all experts
        self.in_all: set[int] | None = None  # the experts that every token chose; None if that may be chance
        self._first: NDArray[Any] = np.zeros((0, 0))
        self._num_chosen = 0

    @property
    def is_placeholder(self) -> bool:
        """Whether there are several rows, and all are equal."""
        return self.alike and self.num_tokens > 1

    def add(self, layer: Layer, some: slice | Ints, first_token: int) -> None:
        """Look at some tokens.

        Raises:
            ValueError: if a token was sent to the same expert twice.
        """
        rows = layer.rows(some)
        if not self.num_tokens:
            self._first = rows[:1].copy()
            self._num_chosen = layer.experts.shape[1] if isinstance(layer, ExpertLayer) else 0
        was_alike, first = self.alike, self._first
        self.alike = was_alike and _equal(rows, first)
        if isinstance(layer, ExpertLayer):
            self.softmaxed = False
            if not self.alike:
                if was_alike:  # earlier rows looked like a placeholder and were not checked
                    self.check_first()
                self._refuse_repeated(layer.experts[some], first_token)
                self._look_at_weights(layer, rows)
        else:
            parts, least = (rows[:FEW], rows), -np.inf if layer.from_logits else 0
            are_shares = ((part >= 0).all() and (part <= 1.0 + TOLERANCE).all() for part in parts)
            self.softmaxed = self.softmaxed and layer.from_logits and all(are_shares)
            have_several = (((part > least).sum(axis=1) > 1).any() for part in parts)
            self.have_several = self.have_several or any(have_several)
            if rows.shape[1] > 1:
                few = rows[rows[:, 0] == rows[:, 1]]  # so that the rest takes no time
                flat = (few == few[:, :1]).all(axis=1) & (layer.from_logits | (few[:, 0] != 0))
                self.num_flat += int(flat.sum())
        self.num_tokens += len(rows)

    def _look_at_weights(self, layer: ExpertLayer, rows: NDArray[Any]) -> None:
        k = layer.experts.shape[1]
        scores = rows[:, k:]
        if scores.shape[1] > k:  # of all experts; -inf: never chosen
            self.has_negative |= bool(((scores < 0) & (scores > -np.inf)).any())
        if layer.have_all:  # sorted neither by number nor by weight, the largest first
            self.num_experts = k
            by_number = (rows[:, :k] == np.arange(k)) | (rows[:, :k] < 0)
            by_weight = np.diff(scores, axis=1) <= 0
            self.num_unsorted += int((~by_number.all(axis=1) & ~by_weight.all(axis=1)).sum())

    def add_counts(self, counts: NDArray[Any], num_tokens: int) -> None:
        """Look at the counts `[documents, M]` of these tokens. A layer without choices is a placeholder."""
        self.alike, self.softmaxed = self.alike and not counts.any(), False
        self.num_tokens += num_tokens

    def check_first(self) -> None:
        """Raise `ValueError` if the first token was sent to the same expert twice."""
        self._refuse_repeated(self._first[:, : self._num_chosen], 0)

    def _refuse_repeated(self, experts: NDArray[Any], first_token: int) -> None:
        for step in range(1, experts.shape[1]):  # comparing shifted rows is far faster than sorting them
            again = (experts[:, step:] == experts[:, :-step]) & (experts[:, step:] >= 0)
            if again.any():
                token, place = np.argwhere(again)[0]
                raise ValueError(
                    f"Token {first_token + token} of layer {self.number} was sent to expert "
                    f"{experts[token, place]:g} twice; expected k different experts (-1 for a choice "
                    "that was dropped)."
                )


def without_placeholders(watches: Sequence[Watch]) -> list[int]:
    """Return the numbers of the layers that are no placeholders, or of all layers if all are placeholders.

    Raises:
        ValueError: if all layers are placeholders, and one sends a token to the same expert twice.
    """
    if numbers := [watch.number for watch in watches if not watch.is_placeholder]:
        return numbers
    for watch in watches:
        watch.check_first()
    return [watch.number for watch in watches]


def measured_layers(layers: Sequence[Layer], some: Ints) -> list[int]:
    """Return the numbers of the layers that are no placeholders, judged by the tokens `some`."""
    watches = [Watch(number) for number in range(len(layers))]
    for watch, layer in zip(watches, layers, strict=True):
        watch.add(layer, some, 0)
    return without_placeholders(watches)


def warnings_of(watches: Sequence[Watch], top_k: int | None) -> Iterator[str]:
    """Yield warnings about the rows of all layers, for the reader."""
    same = [watch for watch in watches if watch.is_placeholder]
    done = (
        "They are left out" if len(same) < len(watches) else "There are no other layers, so they are measured"
    )
    unsorted = [watch for watch in watches if watch.num_unsorted]
    flat = [watch for watch in watches if watch.num_flat and not watch.alike]
    number = unsorted[0].num_experts if unsorted else 0
    most = max((watch.num_flat for watch in flat), default=0)
    for some, text in (
        (same, "every token has the same row, as in placeholders for dense layers or in unwritten buffers. "
         f"{done}."),
        ([watch for watch in watches if watch.softmaxed and watch.num_tokens],
         "all logits are between 0 and 1: they look like probabilities or sigmoid gates, whose softmax would "
         "be nearly even. If they are probabilities, leave out from_logits=True. Divide sigmoid gates by "
         "their sum, too."),
        (unsorted, f"tokens have all {number} experts, so weights may be in the order of experts or of their "
         "numbers. They are read in the order of experts. If they are scores in the order of numbers, give "
         "np.take_along_axis(weights, experts, axis=-1)."),
        ([watch for watch in watches if watch.has_negative],
         "some weights of experts that were not chosen are negative, as logits are. Those of chosen experts "
         "are read as weights. If they are logits, give their softmax."),
        (flat, f"up to {most} tokens have the same value for all experts, as padding and unwritten rows do. "
         "They count as sent to the first experts. If they are padding, leave them out."),
    ):  # fmt: skip
        if some:
            listed = ", ".join(str(watch.number) for watch in some)
            yield f"In layer{'s' * (len(some) > 1)} {listed} {text}"
    every = [watch.in_all for watch in watches if watch.in_all is not None]
    if every and (shared := set.intersection(*every)):
        yield (
            f"Every token goes to expert {' and '.join(map(str, sorted(shared)))} in all layers. If this is "
            "a shared expert, it says nothing about tokens and makes the load uneven. Give shared=..., its "
            "number, to leave it out."
        )
    if top_k is None and assumes_one(watches):
        yield ONE_ASSUMED


def assumes_one(watches: Sequence[Watch]) -> bool:
    """Return whether gates of several experts are measured by the largest one, if top_k is not given."""
    return any(watch.have_several for watch in watches)


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
    written = [number for number, layer in enumerate(layers) if not _equal(layer, layer[:1])]
    if not written:
        return keep
    _warn_of_copies(layers, written)
    layers = [layers[number] for number in written]
    if documents is not None and (again := _again(layers, documents, tokens)).any():
        keep = ~again
        layers = [layer[keep] for layer in layers]
    numbers = np.flatnonzero(keep)
    runs = _runs(layers, numbers)
    keep[numbers[runs]] = False
    if len(runs):
        numbers, layers = np.delete(numbers, runs), [np.delete(layer, runs, axis=0) for layer in layers]
    if layers[0].dtype.kind in "iu" and len(layers) > 1:
        keep[numbers[_filled(layers)]] = False
    return keep


def _equal(rows: NDArray[Any], others: NDArray[Any]) -> bool:
    return bool((rows[:FEW] == others[:FEW]).all() and (rows == others).all())


def _in_all(layers: Sequence[NDArray[Any]], value: Any) -> Ints:
    """Return the tokens whose row is `value`, or with None the row before, in all layers."""
    tokens = np.arange(int(value is None), len(layers[0]))
    for layer in layers:
        found = [tokens[:0]]
        for start in range(0, len(tokens), PART):
            part = tokens[start : start + PART]
            same = layer[part] == (layer[part - 1] if value is None else value)
            found.append(part[same.all(axis=1)])
        tokens = np.concatenate(found)
    return tokens


def _warn_of_copies(layers: Sequence[NDArray[Any]], written: Sequence[int]) -> None:
    pairs = ((other, number) for place, number in enumerate(written) for other in written[:place])
    for other, number in pairs:
        one, layer = layers[other], layers[number]
        if one.shape == layer.shape and len(layer) >= LONG and _equal(layer, one):
            _warn(
                f"Layers {other} and {number} have the same row for every token, as if one layer was "
                "written twice. Record each layer once."
            )
            return


def _runs(layers: Sequence[NDArray[Any]], numbers: Ints) -> Ints:
    """Return the tokens of long runs of one row, as a stale buffer gives; `numbers` are those of the tokens.

    A router that often repeats a row has many short runs; their share says how rare long ones are. So does
    the share of the row among the tokens near the run, as where a router follows documents. A router with few
    different rows comes back to several of them. Such runs are named and kept.
    """
    repeats = _in_all(layers, None)
    first = np.flatnonzero(np.diff(repeats, prepend=-1) != 1)
    lengths = np.diff([*first, len(repeats)]) + 1
    runs = np.delete(np.arange(len(numbers)), repeats)  # the first token of each run, also of one token
    rare = (lengths >= LONG) & (len(numbers) * (len(first) / len(runs)) ** (lengths - 1.0) < RARE)
    starts, lengths = repeats[first[rare]] - 1, lengths[rare]
    rare = len(numbers) * _shares_near(layers, starts, lengths) ** (lengths - 1.0) < RARE
    starts, lengths = starts[rare], lengths[rare]
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


def _shares_near(layers: Sequence[NDArray[Any]], starts: Ints, lengths: Ints) -> NDArray[np.float64]:
    """Return the share of a run's row among the `FEW` / 2 tokens before it or behind it, the larger one."""
    offsets = np.arange(-(FEW // 2), FEW // 2)
    near = starts[:, None] + offsets + np.where(offsets < 0, 0, lengths[:, None])
    exists = (near >= 0) & (near < len(layers[0]))
    same = exists.copy()
    for layer in layers:
        same &= (layer[near.clip(0, len(layer) - 1)] == layer[starts][:, None]).all(axis=2)
    found, number = (part.reshape(-1, 2, FEW // 2).sum(axis=2) for part in (same, exists))
    return (found / np.maximum(number, 1)).max(axis=1)


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
    found = _in_all(layers, np.zeros(k, int)) if k > 1 else np.zeros(0, np.int64)
    if number := len(found):
        _warn(
            f"{number} of {num_tokens} rows hold expert 0 in all choices, as padding does. They are left out."
        )
    some = _in_all(layers, np.arange(k))
    if len(some) <= 3:
        return found
    chance = num_tokens * np.prod([len(_in_all([layer], np.arange(k))) / num_tokens for layer in layers])
    if len(some) > 3 + 3 * chance:
        alike = sum(
            int(np.all([layer[part] == layers[0][part] for layer in layers[1:]], axis=(0, 2)).sum())
            for part in (slice(start, start + PART) for start in range(0, num_tokens, PART))
        )
        is_clear = len(some) >= CLEAR * max(chance, alike - len(some))
        words = "expert 0" if k == 1 else f"the experts 0 to {k - 1}"
        done = "They are left out." if is_clear else "They are counted. If they are padding, leave them out."
        _warn(
            f"{len(some)} of {num_tokens} rows have {words} in all {len(layers)} layers, as padding and "
            f"unwritten rows do. {done}"
        )
        found = np.append(found, some) if is_clear else found
    return found


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
        # Without token ids a document is recognised by its rows, if enough of these differ.
        is_long = is_long and (tokens is not None or len(np.unique(layers[0][places], axis=0)) >= LONG // 2)
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
