"""Counts of experts in domains (labels), for the analyses that compare domains."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import COLUMNS, Analysed, Options

LEAST = 10  # tokens of a domain, or it is left out


def counts_of_domains(
    data: Choices, options: Options
) -> Iterator[tuple[int, Array, NDArray[np.bool_], list[str]]]:
    """Return for each layer with two domains: its place, counts `[groups, domains, E]`, which domains have
    enough tokens `[domains]`, and the names of these."""
    assert data.labels is not None
    labels, cell = np.unique(data.labels, return_inverse=True)
    num_groups, width = int(data.groups.max()) + 1, len(labels)
    for place in options.progress(range(len(data.layers))):
        counts = data.counts(place, data.groups * width + cell, num_groups * width)
        per_group = counts.reshape(num_groups, width, data.num_experts)
        kept = per_group.sum(axis=(0, 2)) >= LEAST * (data.top_k or 1)
        if kept.sum() > 1:
            yield place, per_group, kept, [data.label_name(label) for label in labels[kept].tolist()]


def too_few_tokens(title: str, data: Choices) -> Analysed:
    """Return an empty result: fewer than two domains have enough tokens."""
    table: Any = pd.DataFrame(columns=list(COLUMNS))
    return Analysed(
        table, (f"{title}: fewer than two domains have at least {LEAST} tokens.",), (), data.notes
    )
