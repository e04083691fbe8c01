"""Router saturation: how many of a token's experts are already those of a later checkpoint."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from modtf.routing.analyses.chance import Ratios, rows_of_ratios, without_band
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysis, Options, register_analysis
from modtf.routing.analyses.repetition import bits_of
from modtf.routing.measuring.layers import Ints
from modtf.routing.measuring.tokens import paired
from modtf.routing.names import paired_layers

ALL, FIRST = "router_saturation", "first_choice_saturation"
ENOUGH = 6  # documents; fewer have at most 24 pairings, and with limits by those 20% to 68% lay outside
FEW = "Chance has no limits: it pairs documents, and {} documents have too few pairings."


@register_analysis("saturation")
class Saturation(Analysis):
    """Share of a token's experts that the last checkpoint chooses, too, by expert number.

    `first_choice_saturation` is the same for the first choices alone (k = 1). Experts keep their numbers over
    training, so they are compared by number. The comparison of two models matches experts one to one instead,
    and calls the result shared routing.

    By chance, the mean overlap is the sum over experts of p_i q_i / k, for the shares p and q of tokens that
    choose expert i. Whole documents are paired, so tokens of a document stay alike.
    """

    title = "Router saturation"
    about = "Shows how much of the routing is settled: the experts that the last checkpoint chooses, too."
    definition = (
        "The share of the k experts of a token at a checkpoint that are among its k experts at the last "
        "checkpoint, by expert number."
    )
    source = "Muennighoff et al. (2024), 'OLMoE: Open Mixture-of-Experts Language Models', arXiv:2409.02060."
    null = "Each token is paired with a token of another document of the last checkpoint."
    needs = ("tokens", "against")
    panels: ClassVar = ((ALL,), (FIRST,))
    finds: ClassVar = {ALL: "agree with the last checkpoint more than loads explain"}
    most_tokens = 2**15

    def missing(self, data: Choices) -> str | None:
        """Return why the analysis cannot be computed; the checkpoints need the same layers and experts."""
        why, other = super().missing(data), data.against
        if why is not None or other is None:
            return why
        same_experts = np.array_equal(other.expert_numbers, data.expert_numbers)
        if other.layers != data.layers or not same_experts:
            return (
                f"needs the same layers and experts in both checkpoints; they have {len(data.layers)} and "
                f"{len(other.layers)} layers, {data.num_experts} and {other.num_experts} experts"
                f"{'' if same_experts else ' of different numbers'}"
            )
        return None

    def rows(self, data: Choices, options: Options) -> Iterator[dict[str, Any]]:
        assert data.against is not None
        generator = options.generator()
        orders = [paired(data.documents, generator) for _ in range(options.permutations)]
        ranked = data.top_k is not None and data.top_k > 1 and data.ranked and data.against.ranked
        for place in options.progress(range(len(data.layers))):
            now, last = data.experts[place], data.against.experts[place]
            bits, bits_last = (bits_of(one, data.num_experts) for one in (now, last))
            whole = agreement(now, bits, last, bits_last, ranked)
            drawn = (agreement(now, bits, last[order], bits_last[order], ranked) for order in orders)
            rows = rows_of_ratios(data.layers[place], whole, data.groups, drawn, options.confidence)
            yield from without_band(rows) if data.num_documents < ENOUGH else rows

    def notes(self, data: Choices) -> list[str]:
        assert data.against is not None
        few = FEW.format(data.num_documents) if data.num_documents < ENOUGH else ""
        return [*filter(None, [paired_layers(data.names, data.against.names), few])]


def agreement(
    now: Ints, bits: NDArray[np.uint64], last: Ints, bits_last: NDArray[np.uint64], ranked: bool
) -> Ratios:
    """Return how many choices of each token agree, and how many there are, from choices `[T, k]`.

    `bits` are the same choices, see `bits_of`. If they are ranked, first choices are compared, too.
    """
    overlap = np.bitwise_count(bits & bits_last).sum(axis=1, dtype=np.int64)
    found: Ratios = {ALL: (overlap, (now >= 0).sum(axis=1))}
    taken = now[:, 0] >= 0
    return {**found, FIRST: ((now[:, 0] == last[:, 0]) & taken, taken)} if ranked else found
