"""Find damaged rows of a layer: placeholders, repeated experts, probabilities instead of logits."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.measuring.checks import Ints
from modtf.routing.measuring.choices import Layer
from modtf.routing.measuring.experts import ChosenExperts
from modtf.routing.measuring.gates import TOLERANCE, Gates

FEW = 64  # rows that are compared first, because they usually differ already


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
    """

    def __init__(self, number: int):
        self.number = number
        self.alike = self.softmaxed = True
        self.have_several = self.has_negative = False
        self.num_tokens = self.num_flat = self.num_unsorted = self.num_experts = 0
        self._first: NDArray[Any] = np.zeros((0, 0))
        self._num_chosen = 0

    def add(self, layer: Layer, some: slice | Ints, first_token: int) -> None:
        """Look at some tokens.

        Raises:
            ValueError: if a token was sent to the same expert twice.
        """
        rows = layer.rows(some)
        if not self.num_tokens:
            self._first = rows[:1].copy()
            self._num_chosen = layer.experts.shape[1] if isinstance(layer, ChosenExperts) else 0
        was_alike, first = self.alike, self._first
        self.alike = was_alike and bool((rows[:FEW] == first).all() and (rows == first).all())
        if isinstance(layer, ChosenExperts) and not self.alike:
            if was_alike:  # earlier rows looked like a placeholder and were not checked
                self.check_first()
            self._refuse_repeated(layer.experts[some], first_token)
            scores = rows[:, layer.experts.shape[1] :]
            if scores.shape[1] > layer.experts.shape[1]:  # of all experts; -inf: never chosen
                self.has_negative |= bool(((scores < 0) & (scores > -np.inf)).any())
            if layer.have_all:
                self.num_experts = rows.shape[1] // 2
                self.num_unsorted += _num_unsorted(rows[:, : self.num_experts], rows[:, self.num_experts :])
        if self.softmaxed:
            logits = isinstance(layer, Gates) and layer.from_logits
            self.softmaxed = logits and _are_probabilities(rows[:FEW]) and _are_probabilities(rows)
        if isinstance(layer, Gates):
            self.have_several = self.have_several or _have_several(rows, layer.from_logits)
            self.num_flat += _num_flat(rows, layer.from_logits)
        self.num_tokens += len(rows)

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
    same = [watch for watch in watches if watch.alike and watch.num_tokens > 1]
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


def warnings_of(watches: Sequence[Watch]) -> Iterator[str]:
    """Return warnings about the rows, for the reader."""
    same = [watch.number for watch in watches if watch.alike and watch.num_tokens > 1]
    if same:
        done = "They are left out" if left_out(watches) else "There are no other layers, so they are measured"
        yield (
            f"In {_listed(same)} every token has the same row, as in placeholders for dense layers or in "
            f"unwritten buffers. {done}."
        )
    softmaxed = [watch.number for watch in watches if watch.softmaxed and watch.num_tokens]
    if softmaxed:
        yield (
            f"In {_listed(softmaxed)} all logits are between 0 and 1: they look like probabilities or "
            "sigmoid gates, whose softmax would be nearly even. If they are probabilities, leave out "
            "from_logits=True. Divide sigmoid gates by their sum, too."
        )
    unsorted = [watch.number for watch in watches if watch.num_unsorted]
    if unsorted:
        number = watches[unsorted[0]].num_experts
        yield (
            f"In {_listed(unsorted)} tokens have all {number} experts, so weights may be in the order of "
            "experts or of their numbers. They are read in the order of experts. If they are scores in the "
            "order of numbers, give np.take_along_axis(weights, experts, axis=-1)."
        )
    negative = [watch.number for watch in watches if watch.has_negative]
    if negative:
        yield (
            f"In {_listed(negative)} some weights of experts that were not chosen are negative, as "
            "logits are. Those of chosen experts are read as weights. If they are logits, give their softmax."
        )
    flat = [watch.number for watch in watches if watch.num_flat and not watch.alike]
    if flat:
        most = max(watch.num_flat for watch in watches if not watch.alike)
        yield (
            f"In {_listed(flat)} up to {most} tokens have the same value for all modules, as padding and "
            "unwritten rows do. They count as sent to the first modules. If they are padding, leave them out."
        )


def _listed(numbers: Sequence[int]) -> str:
    return f"layer{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _are_probabilities(rows: NDArray[Any]) -> bool:
    return bool((rows >= 0).all() and (rows <= 1.0 + TOLERANCE).all())


def _have_several(rows: NDArray[Any], from_logits: bool) -> bool:
    least = -np.inf if from_logits else 0
    return any(((some > least).sum(axis=1) > 1).any() for some in (rows[:FEW], rows))


def _num_unsorted(experts: NDArray[Any], weights: NDArray[Any]) -> int:
    """Return how many tokens have experts sorted neither by number nor by weight, the largest first."""
    by_number = (experts == np.arange(experts.shape[1])) | (experts < 0)
    by_weight = np.diff(weights, axis=1) <= 0
    return int((~by_number.all(axis=1) & ~by_weight.all(axis=1)).sum())


def _num_flat(rows: NDArray[Any], from_logits: bool) -> int:
    if rows.shape[1] < 2:
        return 0
    some = rows[rows[:, 0] == rows[:, 1]]  # few rows, so that the rest takes no time
    return int(((some == some[:, :1]).all(axis=1) & (from_logits | (some[:, 0] != 0))).sum())
