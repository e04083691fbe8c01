"""Samples of whole documents, ratios without each group of documents, and chance levels from few draws."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.analyses.choices import Choices
from modtf.routing.measuring.checks import Ints
from modtf.routing.measuring.estimates import mean_and_range


def sample(data: Choices, most: int, seed: int) -> Choices:
    """Return the choices of randomly drawn whole documents with at most `most` tokens, and a note.

    If the first drawn document is longer, its first tokens are taken.
    """
    number = len(data.documents)
    if number <= most:
        return data
    sizes = np.bincount(data.documents)
    order = np.random.default_rng(seed).permutation(len(sizes))
    fits = max(int((sizes[order].cumsum() <= most).sum()), 1)
    rows = np.flatnonzero(np.isin(data.documents, order[:fits]))[:most]
    note = f"{len(rows)} of {number} tokens are used, from whole documents drawn at random."
    return take(data, rows, note)


def take(data: Choices, rows: Ints, note: str) -> Choices:
    """Return the choices of some tokens."""
    assert data.experts is not None
    some: Any = {
        name: None if values is None else values[rows]
        for name in ("labels", "token_ids", "predicted_ids")
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


def few_and_range(values: Array) -> Any:
    """Return the mean and a 95% interval `[3, ...]` over the first axis, from few draws.

    Fewer than 39 draws have no order statistics that enclose 95% of further draws. The interval is then
    that of a further draw of a normal distribution: mean plus and minus t s sqrt(1 + 1/n), with Student's t.
    """
    from scipy.special import stdtrit  # slow to import

    number = len(values)
    if not 2 <= number < 39:
        return mean_and_range(values)
    mean = values.mean(axis=0)
    half = stdtrit(number - 1, 0.975) * values.std(axis=0, ddof=1) * np.sqrt(1.0 + 1.0 / number)
    return np.stack([mean, mean - half, mean + half])
