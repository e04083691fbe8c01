"""Counts of experts in domains (labels), for the analyses that compare domains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysed, Analysis, Options
from modtf.routing.measuring.layers import Ints

LEAST = 10  # tokens of a domain, or it is left out
NAMED = 6  # domains that are left out


@dataclass(frozen=True)
class Domains:
    """The counts of one layer, for the domains that have enough tokens.

    `without` are `counts` without each group of documents. A domain that would vanish stays as it is.
    """

    place: int  # the index of the layer
    kept: NDArray[np.bool_]  # which of all domains these are, [domains]
    names: list[str]  # of the kept domains
    counts: Array  # how often they chose each expert, [kept, E]
    without: Array  # [groups, kept, E]
    sizes: list[float]  # the number of choices in each group
    tokens: Ints  # how many tokens of each kept domain have each number of choices, [kept, k + 1]

    @property
    def choices_per_token(self) -> Array:
        """The mean number of choices of a token in each domain `[kept]`; dropped tokens have none."""
        choices = self.tokens @ np.arange(self.tokens.shape[1])
        return np.asarray(choices / self.tokens.sum(axis=1))


def counts_of_domains(data: Choices, options: Options) -> Iterator[Domains]:
    """Yield the counts of each layer with at least two domains that have enough tokens."""
    assert data.labels is not None
    labels, cell = np.unique(data.labels, return_inverse=True)
    num_groups, width = int(data.groups.max()) + 1, len(labels)
    for place in options.progress(range(len(data.layers))):
        counts = data.counts(place, data.groups * width + cell, num_groups * width)
        per_group = counts.reshape(num_groups, width, data.num_experts)
        sizes = per_group.sum(axis=(1, 2))
        per_group, sizes = per_group[sizes > 0], sizes[sizes > 0]
        tokens = data.tokens_by_choices(place, cell, width)
        kept = tokens[:, 1:].sum(axis=1) >= LEAST
        if kept.sum() < 2:
            continue
        whole = per_group.sum(axis=0)
        rest = whole - per_group
        rest = np.where(rest.sum(axis=2, keepdims=True) > 0, rest, whole)[:, kept]
        # The item "" is the whole layer, so a label without letters is shown as ''.
        names = [data.names.label(label) or "''" for label in labels[kept].tolist()]
        yield Domains(place, kept, names, whole[kept], rest, sizes.tolist(), tokens[kept])


class DomainAnalysis(Analysis):
    """An analysis that compares the domains of each layer."""

    needs = ("labels",)

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return the rows of all layers that have at least two domains, and notes on what is left out."""
        rows: list[dict[str, Any]] = []
        kept = []
        for found in counts_of_domains(data, options):
            kept.append(found.kept)
            rows += self.rows_of_domains(data, found, options)
        if not rows:
            why = f"{self.title}: fewer than two domains have at least {LEAST} tokens."
            return self.nothing(why, data.notes)
        return self.result(rows, data, _left_out(data, kept))

    def rows_of_domains(self, data: Choices, found: Domains, options: Options) -> list[dict[str, Any]]:
        """Return the rows of one layer."""
        raise NotImplementedError


def _left_out(data: Choices, kept: Sequence[NDArray[np.bool_]]) -> Iterator[str]:
    """Yield which domains, and how many layers, are left out, from `Domains.kept` of the other layers."""
    assert data.labels is not None
    names = [data.names.label(label) for label in np.unique(data.labels).tolist()]
    few = [name for name, every in zip(names, np.all(kept, axis=0).tolist(), strict=True) if not every]
    if few:
        listed = ", ".join(few[:NAMED]) + (f" and {len(few) - NAMED} more" if len(few) > NAMED else "")
        yield f"Domains are left out of layers in which they have fewer than {LEAST} tokens: {listed}."
    if missing := len(data.layers) - len(kept):
        number = f"{missing} of {len(data.layers)} layers"
        yield f"Left out: {number}, in which fewer than two domains have at least {LEAST} tokens."
