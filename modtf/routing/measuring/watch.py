"""Find damaged rows of a layer: placeholders, repeated experts, probabilities instead of logits."""

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


class Watch:
    """The observations of one layer's rows.

    Attributes:
        alike: whether all rows are equal, as in the placeholders that some formats write for dense layers.
        softmaxed: whether logits look like probabilities or sigmoid gates: all are between 0 and 1.
        have_several: whether some token has a gate above 0 for several modules.
        num_flat: the number of tokens with the same value, except for gates of 0, for all modules.
        has_negative: whether scores of all experts, given as weights, are negative for some expert.
        num_unsorted: the number of tokens that chose all experts, sorted neither by number nor by weight.
        num_experts: E, if tokens choose all experts.
        in_all: the numbers of the experts that every token chose; None if that may be chance.
    """

    def __init__(self, number: int):
        self.number = number
        self.alike = self.softmaxed = True
        self.have_several = self.has_negative = False
        self.num_tokens = self.num_flat = self.num_unsorted = self.num_experts = 0
        self.in_all: set[int] | None = None
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
        self.alike = was_alike and bool((rows[:FEW] == first).all() and (rows == first).all())
        if isinstance(layer, ExpertLayer):
            self.softmaxed = False
            if not self.alike:
                if was_alike:  # earlier rows looked like a placeholder and were not checked
                    self.check_first()
                self._refuse_repeated(layer.experts[some], first_token)
                self._look_at_weights(layer, rows)
        else:
            self.softmaxed = self.softmaxed and layer.from_logits and _are_probabilities(rows)
            self.have_several = self.have_several or _have_several(rows, layer.from_logits)
            self.num_flat += _num_flat(rows, layer.from_logits)
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


def left_out(watches: Sequence[Watch]) -> list[int]:
    """Return the numbers of the layers whose rows are all equal; none if all layers are like that.

    Raises:
        ValueError: if all layers are like that, and send a token to the same expert twice.
    """
    same = [watch for watch in watches if watch.is_placeholder]
    if len(same) < len(watches):
        return [watch.number for watch in same]
    for watch in same:
        watch.check_first()
    return []


def measured_layers(layers: Sequence[Layer], some: Ints) -> list[int]:
    """Return the numbers of the layers that are no placeholders, judged by the tokens `some`."""
    watches = [Watch(number) for number in range(len(layers))]
    for watch, layer in zip(watches, layers, strict=True):
        watch.add(layer, some, 0)
    skipped = left_out(watches)
    return [number for number in range(len(layers)) if number not in skipped]


def warnings_of(watches: Sequence[Watch], top_k: int | None) -> Iterator[str]:
    """Yield warnings about the rows of all layers, for the reader."""
    same = [watch for watch in watches if watch.is_placeholder]
    done = (
        "They are left out" if len(same) < len(watches) else "There are no other layers, so they are measured"
    )
    negative, flat, unsorted = (
        [watch for watch in watches if of(watch)]
        for of in (
            lambda w: w.has_negative, lambda w: w.num_flat and not w.alike, lambda w: w.num_unsorted
        )
    )  # fmt: skip
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
        (negative, "some weights of experts that were not chosen are negative, as logits are. Those of "
         "chosen experts are read as weights. If they are logits, give their softmax."),
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


def _are_probabilities(rows: NDArray[Any]) -> bool:
    return all(bool((some >= 0).all() and (some <= 1.0 + TOLERANCE).all()) for some in (rows[:FEW], rows))


def _have_several(rows: NDArray[Any], from_logits: bool) -> bool:
    least = -np.inf if from_logits else 0
    return any(((some > least).sum(axis=1) > 1).any() for some in (rows[:FEW], rows))


def _num_flat(rows: NDArray[Any], from_logits: bool) -> int:
    if rows.shape[1] < 2:
        return 0
    some = rows[rows[:, 0] == rows[:, 1]]  # few rows, so that the rest takes no time
    return int(((some == some[:, :1]).all(axis=1) & (from_logits | (some[:, 0] != 0))).sum())
