"""Standing committee: experts that take part in nearly everything, whatever the domain."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.routing.analyses.chance import balanced_loads, rows_of
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.domains import counts_of_domains, notes_of, too_few_tokens
from modtf.routing.analyses.registry import Analysed, Analysis, Options, register_analysis
from modtf.routing.analyses.sentences import beyond_chance, spread_of

NEARLY_ALL = 0.9  # share of a domain's tokens
ALWAYS, SHARE, OVERLAP = "always_on_experts", "committee_share", "committee_overlap"


@register_analysis("standing_committee")
class StandingCommittee(Analysis):
    """The experts that serve every domain, and how much of the routing they take.

    `always_on_experts` counts the experts that at least 90% of the tokens of every domain choose. The
    committee of a layer are the k experts whose smallest share over domains is largest. `committee_share`
    is the part of a domain's choices that they take, in the domain where it is smallest.
    `committee_overlap` is how many of the k most frequent experts of one domain are those of another, as a
    share of k, averaged over pairs of domains.

    The chance level is a balanced router, under which each token chooses k different experts at random. A
    router that ignores domains and loads experts unevenly has a committee: read this beside the load.
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
    needs = ("labels",)
    panels: ClassVar = ((SHARE,), (OVERLAP,), (ALWAYS,))

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return the committee of every layer."""
        top_k = data.top_k or 1
        rows: list[dict[str, Any]] = []
        balanced: dict[tuple[int, ...], list[dict[str, float]]] = {}
        kept = []
        for found in counts_of_domains(data, options):
            kept.append(found.kept)
            key, each = tuple(found.tokens.ravel().tolist()), found.choices_per_token
            if key not in balanced:
                generator = options.generator()
                drawn = [
                    balanced_loads(tokens, data.num_experts, options.permutations, generator)
                    for tokens in found.tokens
                ]
                balanced[key] = [committee(one, top_k, each) for one in np.stack(drawn, axis=1)]
            rows += rows_of(
                data.layers[found.place], committee(found.counts, top_k, each),
                [committee(one, top_k, each) for one in found.without], found.sizes, balanced[key],
                options.confidence, (0, 1), {ALWAYS: data.num_experts},
            )  # fmt: skip
        if not rows:
            return too_few_tokens(self.title, data)
        return self.result(rows, data, notes=notes_of(data, kept))

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        """Return what the committee does, in sentences."""
        always = table[(table["measure"] == ALWAYS) & (table["value"] > 0)]
        count = (
            f"{int(always['value'].sum())} in {len(always)} of {len(data.layers)} layers"
            if len(always)
            else "none"
        )
        return [
            beyond_chance(table, SHARE, "send much of every domain to the same experts", data.names),
            f"The most frequent experts of two domains overlap by {spread_of(table, OVERLAP)}.",
            f"Experts that at least 90% of the tokens of every domain choose: {count}.",
        ]


def committee(counts: Array, top_k: int, choices_per_token: Array) -> dict[str, float]:
    """Return the measures of a layer.

    Args:
        counts: of its experts in each domain, `[domains, E]`.
        top_k: k, the size of the committee.
        choices_per_token: the mean in each domain `[domains]`.
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
