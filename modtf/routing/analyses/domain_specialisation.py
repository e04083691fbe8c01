"""Domain specialisation: how differently the tokens of domains (labels) are routed."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.routing.analyses.chance import permuted_label_counts, rows_of
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.domains import DomainAnalysis, Domains
from modtf.routing.analyses.registry import Options, register_analysis
from modtf.routing.analyses.sentences import above_chance, corrected_limit, percent, spread_of
from modtf.routing.measuring.estimates import FEWEST_DRAWS, Excess

DISTANCE, LARGEST, SPECIALISED = "domain_distance", "largest_share", "specialised_experts"


@register_analysis("domain_specialisation")
class DomainSpecialisation(DomainAnalysis):
    """The share of a domain's tokens that choose each expert, beyond permuted domains.

    Three numbers sum up these shares. `largest_share` is the largest of them. `domain_distance` is half the
    sum over experts of |p(i | d) - p(i)|, averaged over domains, where p(i | d) is the share of expert i
    among the choices of d. `specialised_experts` counts the experts with a domain whose share is beyond
    chance after a correction for the number of experts and domains. It has no interval. Domains with fewer
    than 10 tokens are left out.
    """

    title = "Domain specialisation"
    about = "Shows how much the routing of a token depends on the domain (label) of its text."
    definition = (
        "The share of a domain's tokens for which an expert is among the k chosen ones; `domain_distance` is "
        "the share of a domain's choices that would have to change for it to be routed like all tokens."
    )
    source = "Muennighoff et al. (2024), 'OLMoE: Open Mixture-of-Experts Language Models', arXiv:2409.02060."
    null = "Domains are permuted over documents (over runs, where a document has several domains)."
    panels: ClassVar = ((DISTANCE,), (LARGEST,), (SPECIALISED,))
    finds: ClassVar = {DISTANCE: "route domains differently"}

    def rows_of_domains(self, data: Choices, found: Domains, options: Options) -> list[dict[str, Any]]:
        """Return the domain specialisation of a layer, and the distance of every domain."""
        permuted = permuted_label_counts(data, found.place, options.permutations, options.seed)
        drawn, each = permuted[:, found.kept], found.choices_per_token
        everywhere = np.full(len(each), found.counts.sum() / found.tokens.sum())
        statistic = Statistic(drawn, found.names)
        rows = rows_of(
            data.layers[found.place], statistic(found.counts, each),
            [statistic(one, each) for one in found.without], found.sizes,
            [statistic(one, everywhere, is_draw=True) for one in drawn], options.confidence, (0, 1),
            {SPECIALISED: data.num_experts},
        )  # fmt: skip
        no_interval = {"low": np.nan, "high": np.nan}
        return [row | (no_interval if row["measure"] == SPECIALISED else {}) for row in rows]

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        found = super().sentences(table, data)
        layers = above_chance(table, DISTANCE)
        domains = table[(table["measure"] == DISTANCE) & (table["item"] != "") & table["layer"].isin(layers)]
        # Small domains differ much by chance alone, and one of many domains is above its own band.
        low, middle, high = (domains[name].astype(float) for name in ("chance_low", "chance", "chance_high"))
        limit = corrected_limit(low, middle, high, len(domains), float(table["draws"].min()))
        domains = domains[domains["value"] > limit]
        if not domains.empty:
            best = domains.loc[(domains["value"] - domains["chance"]).astype(float).idxmax()]
            found.append(
                f"The domain routed most differently is {best['item']} in layer "
                f"{data.names.layer(int(best['layer']))}: {percent(best['value'])} of its choices would "
                f"have to change, chance {percent(best['chance'])}."
            )
        found.append(f"The largest share of a domain's tokens at one expert is {spread_of(table, LARGEST)}.")
        return found


class Statistic:
    """The measures of one layer from its counts `[domains, E]`, given the counts under permuted domains."""

    def __init__(self, drawn: Array, names: list[str]):
        self.names = names
        shares = drawn / np.maximum(drawn.sum(axis=2, keepdims=True), 1.0)
        self.excess = Excess(shares) if len(shares) >= FEWEST_DRAWS else None
        if self.excess:
            self.limit = float(np.quantile(self.excess.largest(shares), 0.95, method="higher"))

    def __call__(self, counts: Array, choices_per_token: Array, is_draw: bool = False) -> dict[Any, float]:
        """Return the measures, from the counts and the mean number of choices of a token `[domains]`.

        `is_draw`: these counts are among those drawn by chance."""
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        everywhere = counts.sum(axis=0) / max(float(counts.sum()), 1.0)
        distances = np.abs(shares - everywhere).sum(axis=1) / 2
        found: dict[Any, float] = {
            DISTANCE: float(distances.mean()),
            LARGEST: min(float((shares.max(axis=1) * choices_per_token).max()), 1.0),
        }
        if self.excess:
            excess = self.excess.draw_excess(shares) if is_draw else self.excess(shares)
            beyond = excess > self.limit + 1e-9  # more than by rounding
            found[SPECIALISED] = float(beyond.any(axis=0).sum())
        return found | {(DISTANCE, name): float(d) for name, d in zip(self.names, distances, strict=True)}
