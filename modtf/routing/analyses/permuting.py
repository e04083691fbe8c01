"""Samples of documents, counts of pairs, and ratios without each group of documents."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.analyses.choices import Choices
from modtf.routing.measuring.layers import Ints


def sample(data: Choices, most: int, seed: int) -> Choices:
    """Return the choices of randomly drawn whole documents with at most `most` tokens, and a note.

    If these have fewer than half as many tokens, because the next document is long, its first tokens are
    added.
    """
    number = len(data.documents)
    if number <= most:
        return data
    sizes = np.bincount(data.documents)
    order = np.random.default_rng(seed).permutation(len(sizes))
    fits = int((sizes[order].cumsum() <= most).sum())
    rows, words = np.flatnonzero(np.isin(data.documents, order[:fits])), "whole documents"
    if 2 * len(rows) < most:
        start = int(sizes[: order[fits]].sum())
        rows = np.sort(np.append(rows, np.arange(start, start + most - len(rows))))
        words = f"{fits} whole documents and the start of one," if fits else "the start of one document"
    note = f"{len(rows)} of {number} tokens are used, from {words} drawn at random."
    return take(data, rows, note)


def take(data: Choices, rows: Ints, note: str) -> Choices:
    """Return the choices of some tokens."""
    assert data.experts is not None
    some: Any = {
        name: None if values is None else values[rows]
        for name in ("labels", "spans", "token_ids", "predicted_ids")
        for values in [getattr(data, name)]
    }
    return replace(
        data,
        experts=data.experts[:, rows],
        documents=np.unique(data.documents[rows], return_inverse=True)[1],
        notes=(*data.notes, note),
        against=None if data.against is None else take(data.against, rows, note),
        **some,
    )


def joint(first: NDArray[Any], after: NDArray[Any], number: int) -> Ints:
    """Return how many tokens have each pair of choices `[E, E]`; dropped choices do not count."""
    taken = (first >= 0) & (after >= 0)
    key = first * number + after
    counts = np.bincount(key if taken.all() else key[taken], minlength=number * number)
    return counts.reshape(number, number)


def ratios(
    parts: Mapping[Any, tuple[NDArray[Any], NDArray[Any]]], groups: Ints
) -> tuple[dict[Any, float], list[dict[Any, float]], list[float]]:
    """Return ratios of sums, the same without each group of documents, and the sizes of the groups.

    Args:
        parts: name -> numerators and denominators `[N]`, whose sums are divided.
        groups: the group of each of them, `[N]`.
    """
    sizes = np.bincount(groups)
    used = np.flatnonzero(sizes)
    value, left_out = {}, {}
    for name, (above, below) in parts.items():
        a, b = (np.bincount(groups, some, len(sizes))[used] for some in (above, below))
        value[name] = divided(a.sum(), b.sum())
        left_out[name] = [divided(one, other) for one, other in zip(a.sum() - a, b.sum() - b, strict=True)]
    without = [{name: values[i] for name, values in left_out.items()} for i in range(len(used))]
    return value, without if len(used) > 1 else [], sizes[used].tolist() if len(used) > 1 else []


def divided(above: Any, below: Any) -> float:
    """Return a quotient, or NaN if nothing can be divided."""
    return float(above / below) if below > 0 else float("nan")
