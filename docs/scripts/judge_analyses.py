"""Judge the analyses of routing, for docs/measure_values.md: `python docs/scripts/judge_analyses.py`.

The routers are simulated and what each one follows is known. So the table shows which analysis finds it, and
which values are large for another reason. 30 documents of 40 tokens belong to four domains. Frequencies of
token ids follow Zipf's law. There are two layers of 16 experts, two for each token.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import modtf
from modtf.pages.text import markdown_table

DOCUMENTS, LENGTH, EXPERTS, VOCABULARY, DOMAINS = 30, 40, 16, 300, 4
TOKENS = DOCUMENTS * LENGTH
STRENGTH = 4.0  # of what a router follows, in standard deviations of its noise
Ints, Array = NDArray[np.int64], NDArray[np.float64]
#: analysis -> measure -> heading
COLUMNS = {
    "load": {"max_violation": "max violation"},
    "domain_specialisation": {"domain_distance": "domain"},
    "vocabulary_specialisation": {
        "first_choice_input": "vocabulary, all ids",
        "first_choice_input_frequent": "vocabulary, frequent ids",
    },
    "coactivation": {"top_partner_share": "co-activation"},
    "repetition": {"first_choice_repeated": "repetition"},
    "consistency": {
        "segment_routing_best_performance_16": "SRP, 16 tokens",
        "segment_cache_best_hit_rate_16": "SCH, 16 tokens",
    },
    "cache": {"lru_hit_rate_4": "LRU cache of 4"},
    "dependence": {"adjusted_mutual_information": "next layer"},
    "saturation": {"router_saturation": "saturation"},
}


def top_two(scores: Array) -> Ints:
    """Return the two experts with the largest scores plus noise, the larger first."""
    return np.argsort(-scores, axis=-1)[..., :2]


class World:
    """Tokens, their documents and domains, and routers whose behaviour is known."""

    def __init__(self, seed: int = 0):
        self.generator = np.random.default_rng(seed)
        self.documents = np.repeat(np.arange(DOCUMENTS), LENGTH)
        self.domains = self.documents % DOMAINS
        zipf = 1.0 / np.arange(1, VOCABULARY + 1)
        self.ids = self.generator.choice(VOCABULARY, TOKENS, p=zipf / zipf.sum())
        self.routers: dict[str, Callable[[], Ints]] = {
            "nothing": lambda: top_two(self.noise()),
            "nothing, unequal loads": lambda: top_two(self.noise() + np.linspace(0, 4, EXPERTS)),
            "the token id": lambda: self.follows(self.ids),
            "the domain": lambda: self.follows(self.domains),
            "the document": lambda: self.follows(self.documents),
            "its last choice": self.sticky,
            "fixed pairs": self.pairs,
            "the layer before": self.chained,
        }

    def noise(self) -> Array:
        """Return the scores of a router that knows nothing `[2, T, E]`."""
        return self.generator.normal(size=(2, TOKENS, EXPERTS))

    def follows(self, factor: Ints) -> Ints:
        """Return the choices of a router whose scores depend on a factor of tokens."""
        preferences = self.generator.normal(size=(2, factor.max() + 1, EXPERTS))
        return top_two(STRENGTH / 2 * preferences[:, factor] + self.noise())

    def sticky(self) -> Ints:
        """Return random choices that stay for the next token with probability 0.6."""
        experts = top_two(self.noise())
        for token in range(1, TOKENS):
            if self.documents[token] == self.documents[token - 1]:
                stays = self.generator.random(2) < 0.6
                experts[stays, token] = experts[stays, token - 1]
        return experts

    def pairs(self) -> Ints:
        """Return random choices of one of eight fixed pairs of experts."""
        first = self.generator.integers(EXPERTS, size=(2, TOKENS))
        return np.stack([first, first ^ 1], axis=2)

    def chained(self) -> Ints:
        """Return random choices of the first layer, which the next layer renumbers."""
        experts = top_two(self.noise())
        experts[1] = self.generator.permutation(EXPERTS)[experts[0]]
        return experts

    def arrays(self, experts: Ints) -> dict[str, object]:
        """Return the arrays of a router."""
        weights = np.broadcast_to([0.6, 0.4], experts.shape)
        return {
            "experts": experts, "weights": weights, "num_experts": EXPERTS, "labels": self.domains,
            "tokens": self.ids, "documents": self.documents,
        }  # fmt: skip


def judged() -> list[tuple[str, list[tuple[float, float, bool]]]]:
    """Return for each router and column the value, its mean by chance, and whether it is above chance."""
    world, rows = World(), []
    for name, route in world.routers.items():
        experts = route()
        rows.append((name, _measure(world, experts, top_two(world.noise()))))
    last, other = top_two(world.noise()), top_two(world.noise())
    kept = world.generator.random((2, TOKENS, 1)) < 0.5
    experts = np.where(kept, last, other)
    rows.append(("half of the last checkpoint", _measure(world, experts, last)))
    return rows


def _measure(world: World, experts: Ints, last: Ints) -> list[tuple[float, float, bool]]:
    analyses = modtf.analyse_routing(world.arrays(experts), list(COLUMNS), against=world.arrays(last))
    cells = []
    for analysis, measures in COLUMNS.items():
        table = analyses.found[analysis].table
        table = table[(table["layer"] == 0) & (table["item"] == "")].set_index("measure")
        for measure in measures:
            row = table.loc[measure]
            cells.append((row["value"], row["chance"], bool(row["value"] > row["chance_high"])))
    return cells


def table() -> str:
    """Return the table of the page: value and chance of each analysis, bold where it is above chance."""
    headings = [heading for measures in COLUMNS.values() for heading in measures.values()]
    rows = [
        [
            name,
            *(f"{'**' * above}{value:z.2f}{'**' * above} ({chance:z.2f})" for value, chance, above in cells),
        ]
        for name, cells in judged()
    ]
    return markdown_table(["the router follows", *headings], rows)


if __name__ == "__main__":
    print(table())
