"""Judge the analyses of routing, for docs/measure_values.md and docs/language_family.md.

    python docs/scripts/judge_analyses.py

For the first page the routers are simulated and what each one follows is known. So the table shows which
analysis finds it, and which values are large for another reason. 30 documents of 40 tokens belong to four
domains. Frequencies of token ids follow Zipf's law. There are two layers of 16 experts, two for each token.

For the second page the routers are those of trained language models, on 160 documents in eight languages:

    modtf run --arch=languages --variant=hash,top_2,switch,gt_modular --set training.steps=4000 \\
        --out=runs/judged
    python docs/scripts/write_example.py runs/judged docs/study
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sources import RESULTS

import modtf
from modtf.pages.text import markdown_table

DOCUMENTS, LENGTH, EXPERTS, VOCABULARY, DOMAINS = 30, 40, 16, 300, 4
TOKENS = DOCUMENTS * LENGTH
STRENGTH = 4.0  # of what a router follows, in standard deviations of its noise
#: trained routers -> what they know
TRAINED = {"hash": "the word", "gt_modular": "the language", "top_2": "both", "switch": "both"}
Ints, Array = NDArray[np.int64], NDArray[np.float64]
Columns = Mapping[str, Mapping[str, str]]
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
IN_LANGUAGES = {
    "domain_specialisation": {"domain_distance": "domain"},
    "vocabulary_specialisation": {"first_choice_input_frequent": "vocabulary"},
    "repetition": {"first_choice_repeated": "repetition"},
    "consistency": {"segment_routing_best_performance_16": "SRP, 16 tokens"},
    "cache": {"lru_hit_rate_4": "LRU cache of 4"},
    "dependence": {"adjusted_mutual_information": "next layer"},
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
    found = modtf.analyse_routing(world.arrays(experts), list(COLUMNS), against=world.arrays(last)).found
    return _values(found, COLUMNS, 0)


def _values(found: Mapping[str, Any], columns: Columns, layer: int) -> list[tuple[float, float, bool]]:
    """Return value, mean by chance, and whether it is above chance, of each measure."""
    cells = []
    for analysis, measures in columns.items():
        for measure in measures:
            table = found[analysis].table
            table = table[(table["measure"] == measure) & (table["item"] == "")].set_index("layer")
            row = table.loc[min(layer, table.index.max())]  # no layer is next to the last
            cells.append((row["value"], row["chance"], bool(row["value"] > row["chance_high"])))
    return cells


def judged_in_languages() -> list[tuple[str, list[tuple[float, float, bool]]]]:
    """Return the same for trained routers, in layer 2, and from layer 1 to layer 2."""
    rows = []
    for name in TRAINED:
        routing = modtf.read_routing(str(RESULTS / f"languages_{name}.npz"))
        found = modtf.analyse_routing(routing, list(IN_LANGUAGES)).found
        rows.append((f"`{name}`, knows {TRAINED[name]}", _values(found, IN_LANGUAGES, 1)))
    return rows


def table(rows: list[tuple[str, list[tuple[float, float, bool]]]], columns: Columns, head: str) -> str:
    """Return a table in Markdown: value and chance of each analysis, bold where it is above chance."""
    headings = [heading for measures in columns.values() for heading in measures.values()]
    shown = [[name, *(_shown(*cell) for cell in cells)] for name, cells in rows]
    return markdown_table([head, *headings], shown)


def _shown(value: float, chance: float, above: bool) -> str:
    mark = "**" * above
    return "-" if math.isnan(value) else f"{mark}{value:z.2f}{mark} ({chance:z.2f})"


def texts() -> dict[str, str]:
    """Return the table of each page."""
    return {
        "measure_values.md": table(judged(), COLUMNS, "the router follows"),
        "language_family.md": table(judged_in_languages(), IN_LANGUAGES, "router"),
    }


if __name__ == "__main__":
    print("\n\n".join(texts().values()))
