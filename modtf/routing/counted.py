"""Counts: how often the tokens of each document chose each expert."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.arrays import Arrays
from modtf.routing.formats.joined import warn, whole_number
from modtf.routing.formats.registry import FORMATS
from modtf.routing.measuring.activations import exceed_tokens
from modtf.routing.measuring.layers import check_shared, one_integer


@dataclass(frozen=True)
class Counted:
    """How often the tokens of each document chose each expert, `[documents, layers, experts]`.

    Counts are enough for the measures of load and of labels, and for their chance levels. Single tokens are
    needed for co-activation, repetition, caches, comparisons and `measure_factors`.
    """

    counts: NDArray[np.int64]
    top_k: int | None  # the number of experts per token, without the shared ones, if it is known
    shared: tuple[int, ...] = ()  # the experts that `counts` leaves out

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape [layers, documents, E]."""
        return (self.counts.shape[1], self.counts.shape[0], self.counts.shape[2])


def counted(arrays: Arrays, num_experts: int | None, shared: Sequence[int]) -> Counted:
    """Return counts `[documents, layers, experts]`."""
    counts = whole_number(arrays["counts"], f"{arrays.source}")
    if counts.ndim != 3 or 0 in counts.shape:
        raise ValueError(
            f"The array 'counts' of {arrays.source} has shape {counts.shape}; expected [documents, layers, "
            "experts]. Give counts[:, np.newaxis] for [documents, experts] of one layer, and "
            "counts[np.newaxis] for [layers, experts] of one document."
        )
    common = int(np.gcd.reduce(counts, axis=None))
    if common > 1:
        warn(
            f"All counts are multiples of {common}, as if each token was counted {common} times. They are "
            f"divided by {common}."
        )
    totals = counts[:, counts.any(axis=(0, 2))].sum(axis=2) // max(common, 1)  # dense layers have zeros
    if (totals != totals[:, :1]).any():
        warn(
            f"The layers of a document count {totals.min()} to {totals.max()} choices. Tokens were dropped, "
            "or the axes are not [documents, layers, experts]."
        )
    known = one_integer("top_k", arrays["top_k"]) if "top_k" in arrays else None
    top_k = same_top_k(known, arrays.source.top_k)
    counts = _padded(arrays, counts // max(common, 1), num_experts)
    shared = check_shared(shared, counts.shape[2])
    _check_counted_for_all(shared, counts, top_k)
    counts = np.delete(counts, shared, axis=2)
    totals = counts.sum(axis=2)
    if not totals.any() or exceed_tokens(counts, top_k):
        raise ValueError(
            f"{arrays.source} counts an expert up to {counts.max()} times in {totals.max()} choices; "
            f"expected each expert at most once among a token's {top_k or 1} choices."
        )
    return Counted(counts, top_k, shared)


def _check_counted_for_all(shared: Sequence[int], counts: NDArray[np.int64], top_k: int | None) -> None:
    """Raise `ValueError` if counts `[documents, layers, E]` of a shared expert miss some tokens.

    Every token of a layer goes to it, so no expert is counted more often, and the experts that are not shared
    at most `top_k` times as often. A layer without it is a placeholder for a dense layer.
    """
    others = np.delete(counts, list(shared), axis=2).sum(axis=2)
    for one in shared:
        number = counts[..., one]
        wrong = number < counts.max(axis=2)
        if top_k is not None:
            wrong |= others > top_k * number
        if not number.any() or (wrong & number.any(axis=0)).any():
            raise ValueError(
                f"shared holds {one}, but {number.sum()} choices of it are too few; expected an expert that "
                "every token goes to. Leave out shared if the counts hold none."
            )


def _padded(arrays: Arrays, counts: NDArray[np.int64], num_experts: int | None) -> NDArray[np.int64]:
    """Return counts of all experts, including those that received no token and are missing in the file."""
    known = counts.shape[2]
    number = arrays.get("num_experts") if num_experts is None else np.asarray(num_experts)
    if number is None:
        if FORMATS[arrays.format].lists_only_chosen:
            warn(
                f"{arrays.source} lists only experts that were chosen, so {known} experts are assumed, from "
                "the highest number. Give --num_experts=E (num_experts=E)."
            )
        return counts
    size = one_integer("num_experts", number)
    if size < known:
        raise ValueError(
            f"{arrays.source} counts {known} experts, but num_experts is {size}; expected at "
            f"least {known}, because experts are numbered from 0."
        )
    return np.pad(counts, ((0, 0), (0, 0), (0, size - known)))


def same_top_k(known: int | None, given: int | None) -> int | None:
    """Return the number of experts per token, which a file may know; `ValueError` if another one is given."""
    if known is not None and given not in (None, known):
        raise ValueError(
            f"--top_k={given} (top_k={given}) is not valid; expected {known}, which the counts were read "
            "with. Leave it out."
        )
    return given if known is None else known
