"""Standing committee: experts that take part in nearly everything, whatever the domain."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.routing.analyses.chance import balanced_loads, rows_of
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.domains import DomainAnalysis, Domains
from modtf.routing.analyses.registry import Options, register_analysis
from modtf.routing.analyses.sentences import spread_of

NEARLY_ALL = 0.9  # share of a domain's tokens
ALWAYS, SHARE, OVERLAP = "always_on_experts", "committee_share", "committee_overlap"


@register_analysis("standing_committee")
class StandingCommittee(DomainAnalysis):
    """The experts that serve every domain, and how much of the routing they take.

    The committee of a layer are the k experts whose smallest share over domains is largest. `committee_share`
    is the part of a domain's choices that they take, in the domain where it is smallest. `committee_overlap`
    is how many of the k most frequent experts of one domain are those of another, as a share of k, averaged
    over pairs of domains. A router that ignores domains and loads experts unevenly has a committee: read this
    beside the load.
    """

    title = "Standing committee"
    about = "Shows whether the same few experts serve every domain."
    definition = (
        "The k experts that every domain uses, and the least share of a domain's choices that they take; "
        "an always-on expert is chosen by at least 90% of the tokens of every domain."
    )
    source = (
        "The idea of a domain-invariant committee: 'The Illusion of Specialization: Unveiling the "
        "Domain-Invariant Standing Committee in Mixture-of-Experts Models' (2026), arXiv:2601.03425. The "
        "three numbers are defined here."
    )
    null = "Every token chooses k different experts at random, whatever its domain."
    panels: ClassVar = ((SHARE,), (OVERLAP,), (ALWAYS,))
    finds: ClassVar = {SHARE: "send much of every domain to the same experts"}

    def __init__(self) -> None:
        self._balanced: dict[tuple[int, ...], Array] = {}  # counts by chance `[draws, domains, E]`

    def rows_of_domains(self, data: Choices, found: Domains, options: Options) -> list[dict[str, Any]]:
        key = tuple(found.tokens.ravel().tolist())
        if key not in self._balanced:  # layers share draws if they dropped as many tokens of each domain
            loads = partial(balanced_loads, generator=options.generator())
            drawn = [loads(tokens, data.num_experts, options.permutations) for tokens in found.tokens]
            self._balanced[key] = np.stack(drawn, axis=1)
        measures = partial(committee, top_k=data.top_k or 1, choices_per_token=found.choices_per_token)
        return rows_of(
            data.layers[found.place], measures(found.counts), list(map(measures, found.without)), found.sizes,
            list(map(measures, self._balanced[key])), options.confidence, (0, 1), {ALWAYS: data.num_experts},
        )  # fmt: skip

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        always = table[(table["measure"] == ALWAYS) & (table["value"] > 0)]
        count = f"{int(always['value'].sum())} in {len(always)} of {len(data.layers)} layers"
        count = count if len(always) else "none"
        return [
            *super().sentences(table, data),
            f"The most frequent experts of two domains overlap by {spread_of(table, OVERLAP)}.",
            f"Experts that at least 90% of the tokens of every domain choose: {count}.",
        ]


def committee(counts: Array, top_k: int, choices_per_token: Array) -> dict[str, float]:
    """Return the measures of a layer from the counts of its experts `[domains, E]`.

    The committee has `top_k` members; `choices_per_token` `[domains]` are means.
    """
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    least = shares.min(axis=0)
    members = np.argsort(-least, kind="stable")[:top_k]
    often = np.zeros_like(shares)
    np.put_along_axis(often, np.argsort(-shares, axis=1, kind="stable")[:, :top_k], 1.0, axis=1)
    together = (often @ often.T) / top_k
    number = len(shares)
    return {
        ALWAYS: float(((shares * choices_per_token[:, np.newaxis]).min(axis=0) >= NEARLY_ALL).sum()),
        SHARE: float(shares[:, members].sum(axis=1).min()),
        OVERLAP: float((together.sum() - np.trace(together)) / (number * (number - 1))),
    }
