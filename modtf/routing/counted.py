"""Counts of experts `[documents, layers, experts]` as the tokens that measures read."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.measuring import Experts
from modtf.routing.measuring.checks import Ints
from modtf.routing.measuring.experts import NONE

MOST_TOKENS = 2**28


class Counted:
    """Tokens of which only the sums over documents are known.

    Measures of load and of labels, and their chance levels, depend on these sums alone. So any tokens with
    the same sums give the same numbers: the tokens of each document choose its experts as often as counted.
    What depends on single tokens (co-activation, repetition, token factors) cannot be measured.

    Args:
        counts: `[documents, layers, experts]`, how often each expert was chosen.
        top_k: how many experts a token is sent to; None, or where counts do not fit it: each choice counts as
            one token.

    Raises:
        ValueError: if counts are too many, all 0, or an expert was chosen more often than there were tokens.
    """

    def __init__(self, counts: Ints, top_k: int | None = None, shared: Sequence[int] = ()):
        self.counts, self.shared = counts, tuple(shared)
        totals = counts.sum(axis=2)
        k = top_k or 1
        fits = (totals == totals[:, :1]).all() and not (totals % k).any()
        self.top_k = k if fits and not shared else 1
        self.sizes = totals.max(axis=1) // self.top_k
        if (counts.max(axis=(1, 2)) > self.sizes).any():
            document = int(np.argmax(counts.max(axis=(1, 2)) > self.sizes))
            raise ValueError(
                f"document {document} has {self.sizes[document]} tokens with {k} choices each, but chose an "
                "expert "
                f"{counts[document].max()} times; expected another --top_k"
            )
        if not 0 < self.num_tokens <= MOST_TOKENS:
            raise ValueError(
                f"counts add up to {self.num_tokens} tokens; expected between 1 and {MOST_TOKENS}. Divide "
                "larger "
                "counts by a constant."
            )

    @property
    def num_tokens(self) -> int:
        """The number of tokens."""
        return int(self.sizes.sum())

    @property
    def shape(self) -> tuple[int, ...]:
        """[layers, tokens, E]"""
        return (self.counts.shape[1], self.num_tokens, self.counts.shape[2])

    @property
    def documents(self) -> Ints:
        """The document of each token `[tokens]`."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def _starts(self) -> Ints:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def __getitem__(self, part: tuple[slice, slice]) -> Experts:
        layers, tokens = part
        begin, end, _ = tokens.indices(self.num_tokens)
        first = int(np.searchsorted(self._starts, begin, side="right")) - 1
        last = int(np.searchsorted(self._starts, end, side="left"))
        blocks = [self._document(document)[layers] for document in range(first, max(last, first + 1))]
        start = int(self._starts[first])
        experts = np.concatenate(blocks, axis=1)[:, begin - start : end - start]
        return Experts(experts, self.counts.shape[2], None, self.shared)

    def _document(self, document: int) -> NDArray[Any]:
        """Return the experts of a document's tokens `[layers, tokens, k]`.

        The choices, in the order of experts, are dealt to one token after the other, so that none gets an
        expert twice.
        """
        size = int(self.sizes[document])
        dealt = np.full((self.counts.shape[1], self.top_k * size), NONE, np.int32)
        for layer, counts in enumerate(self.counts[document]):
            choices = np.repeat(np.arange(len(counts)), counts)
            dealt[layer, : len(choices)] = choices
        return dealt.reshape(len(dealt), self.top_k, size).transpose(0, 2, 1)
