"""Texts about how tokens were measured, and about the assumptions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.words import plural
from modtf.metrics.distributions import as_numbers
from modtf.routing.measuring.checks import Ints, Numbers, lost_names
from modtf.routing.measuring.documents import Documents
from modtf.routing.measuring.units import Pieces
from modtf.routing.measuring.watch import Watch, warnings_of

ENOUGH = 64  # tokens: with so many, an expert that all of them chose is no chance
ONE_ASSUMED = (
    "The number k of experts per token is not given, so one is assumed: hard assignment counts the largest "
    "gate of each token. If the router chooses several, give --top_k=K (top_k=K)."
)


class Sums(Protocol):
    """The parts of an `ActivationAccumulator` that are described."""

    from_logits: bool
    top_k: int | None
    are_chosen: bool
    are_counts: bool
    watches: list[Watch]
    groups: list[NDArray[Any]]
    counts: NDArray[Any]
    documents: list[Documents]
    label_names: Sequence[str] | None
    module_numbers: list[Ints]
    has_labels: bool | None
    has_documents: bool | None
    num_documents: int
    pieces: Pieces


def how_measured(
    sums: Sums, label_probs: ArrayLike | None, confidence: float, names: Sequence[str] | None
) -> str:
    """Return a text that says what was measured, and explains intervals and chance levels."""
    what = "Experts" if sums.are_chosen else "Logits" if sums.from_logits else "Gates"
    if sums.are_counts:
        what = f"Counts of choices, {sums.top_k or 1} per token" + ("" if sums.top_k else " (k is unknown)")
    elif sums.top_k:
        what += f", the {sums.top_k} largest of each token"
    elif assumes_one(sums.watches):
        what += "; one expert per token is assumed, because top_k is not given"
    intervals = f"Intervals: {100 * confidence:g}%."
    if not sums.has_labels:
        return f"{what}. No labels. {intervals}"
    return (
        f"{what}. {_frequencies(sums, label_probs, names)}. {intervals} "
        f"Chance: labels permuted over and within {sums.num_documents} documents"
        + (" of one label in a row each, since none were given." if not sums.has_documents else ".")
    )


def _frequencies(sums: Sums, label_probs: ArrayLike | None, names: Sequence[str] | None) -> str:
    """Return how frequent labels count as, each with its name or number."""
    if label_probs is None or isinstance(label_probs, str):
        return f"Labels as frequent as {label_probs or 'observed'}"
    labels = np.flatnonzero(sums.counts).tolist()
    probs = as_numbers(label_probs, "label_probs").ravel().tolist()
    each = [f"{names[one] if names else one} = {p:.4g}" for one, p in zip(labels, probs, strict=False)]
    return f"Frequencies of labels: {', '.join(each)}"


def assumes_one(watches: Iterable[Watch]) -> bool:
    """Return whether gates of several experts are measured by the largest one, if top_k is not given."""
    return any(watch.have_several for watch in watches)


def assumed(sums: Sums, *numbered: Numbers) -> Iterator[str]:
    """Return notes about the tokens of all layers and the names of labels and documents, for the reader."""
    yield from warnings_of(sums.watches)
    yield from _shared(sums)
    if sums.top_k is None and assumes_one(sums.watches):
        yield ONE_ASSUMED
    for one in numbered:
        yield from lost_names(one.what, one.names)
    if not sums.has_labels:
        yield (
            "There are no labels. Give labels=..., one for each token or document (its domain, language or "
            "class), to measure what modules specialise in, and the chance level."
        )
    elif not sums.has_documents:
        yield (
            "There are no documents. Consecutive tokens with the same label count as one document, "
            f"{sums.num_documents} in all. If documents are longer or shorter, the chance level is wrong. "
            "Give documents=..., the number of each token's document (np.arange(tokens) if tokens are "
            "independent)."
        )
    if sums.has_labels and (found := sums.documents[0].uneven()):
        names = tuple(numbered[0].names) or sums.label_names
        longest, shortest = (repr(names[one]) if names else str(one) for one in found[:2])
        yield (
            f"Documents or runs of the label {longest} are {found[2]:.2g} times as long as those of "
            f"{shortest}. The chance level is too high then: weak information is missed, and values below "
            "chance mean nothing. Leave out the ends of long documents."
        )
    if sums.pieces.joined:
        yield (
            f"Tokens of {plural(len(sums.pieces.joined), 'document')} come back after those of others. All "
            "tokens of one number count as one document. If numbers begin again in each batch, make them "
            "unique."
        )
    if sums.pieces.came_back:
        yield (
            f"Tokens of {plural(sums.pieces.came_back, 'document')} are not contiguous, so their pieces "
            "count as separate documents. Give the tokens of a document one after the other."
        )


def _shared(sums: Sums) -> Iterator[str]:
    """Yield a warning if some of the k experts of a token are the same for all tokens and layers."""
    chosen = [
        (use.sum(axis=(0, 1)), numbers)
        for (_, use), numbers, watch in zip(sums.groups, sums.module_numbers, sums.watches, strict=True)
        if not watch.alike and watch.num_tokens >= ENOUGH
    ]
    k = sums.top_k or 1
    if not sums.are_chosen or k < 2 or not chosen:
        return
    # A token gives 1/k to each of its experts, so this sum is reached only if every token chose the expert.
    every = [numbers[use >= use.sum() / k * (1 - 1e-9)] for use, numbers in chosen if len(use) > k]
    if every and (same := set.intersection(*(set(one.tolist()) for one in every))):
        yield (
            f"Every token goes to expert {' and '.join(map(str, sorted(same)))} in all layers. If this is a "
            "shared expert, it says nothing about tokens and makes the load uneven. Give shared=..., its "
            "number, to leave it out."
        )
