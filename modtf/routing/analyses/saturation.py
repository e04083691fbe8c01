"""Router saturation: how many of a token's experts are already those of a later checkpoint."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.routing.analyses.chance import rows_of
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.permuting import ratios, sample
from modtf.routing.analyses.registry import Analysed, Analysis, Options, register_analysis
from modtf.routing.analyses.repetition import bits_of
from modtf.routing.analyses.sentences import beyond_chance
from modtf.routing.measuring.layers import Ints
from modtf.routing.measuring.tokens import paired
from modtf.routing.names import paired_layers

ALL, FIRST = "router_saturation", "first_choice_saturation"
MOST_TOKENS = 2**15
ENOUGH = 6  # documents; fewer have at most 24 pairings, and with limits by those 20% to 68% lay outside
FEW = "Chance has no limits: it pairs documents, and {} documents have too few pairings."


@register_analysis("saturation")
class Saturation(Analysis):
    """Share of a token's experts that the last checkpoint chooses, too, by expert number.

    `router_saturation` is the mean over tokens of |A and B| / k, where A are the k experts of this checkpoint
    and B those of the last. `first_choice_saturation` is the same for the first choices alone (k = 1).
    Experts keep their numbers over training, so they are compared by number. The comparison of two models
    matches experts one to one instead, and calls the result shared routing.

    The chance level pairs every token with a random token of another document in the last checkpoint. The
    choices of such a pair are independent, at the same loads. Their mean overlap is the sum over experts of
    p_i q_i / k, for the shares p and q of tokens that choose expert i. Whole documents are paired, so
    tokens of a document stay alike.
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

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return the saturation of every layer."""
        data = sample(data, MOST_TOKENS, options.seed)
        assert data.experts is not None
        assert data.against is not None
        assert data.against.experts is not None
        generator = options.generator()
        orders = [paired(data.documents, generator) for _ in range(options.permutations)]
        ranked = data.top_k is not None and data.top_k > 1 and data.ranked and data.against.ranked
        rows: list[dict[str, Any]] = []
        for place in options.progress(range(len(data.layers))):
            now, last = data.experts[place], data.against.experts[place]
            bits, bits_last = (bits_of(one, data.num_experts) for one in (now, last))
            chosen = (now >= 0).sum(axis=1)
            parts: dict[str, Any] = {ALL: (overlap(bits, bits_last), chosen)}
            if ranked:
                parts[FIRST] = (agree(now[:, 0], last[:, 0]), now[:, 0] >= 0)
            value, without, sizes = ratios(parts, data.groups)
            chance = []
            for order in orders:
                drawn = {ALL: overlap(bits, bits_last[order]).sum() / max(chosen.sum(), 1)}
                if ranked:
                    same, taken = agree(now[:, 0], last[order, 0]), now[:, 0] >= 0
                    drawn[FIRST] = same.sum() / max(taken.sum(), 1)
                chance.append(drawn)
            rows += rows_of(data.layers[place], value, without, sizes, chance, options.confidence, (0, 1))
        notes, table = data.notes, pd.DataFrame(rows)
        if text := paired_layers(data.names, data.against.names):
            notes = (*notes, text)
        if data.num_documents < ENOUGH:
            notes = (*notes, FEW.format(data.num_documents))
            table[["chance_low", "chance_high"]] = np.nan
        return self.result(table, data, self.panels if ranked else self.panels[:1], notes)

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        """Return what was found about saturation."""
        what = "agree with the last checkpoint more than loads explain"
        return [beyond_chance(table, ALL, what, data.names)]


def overlap(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> Ints:
    """Return the number of experts that both choose for every token `[T]`, from bits `[T, words]`."""
    return np.bitwise_count(one & other).sum(axis=1, dtype=np.int64)


def agree(one: Ints, other: Ints) -> NDArray[np.bool_]:
    """Return whether both first choices are the same expert `[T]`."""
    return (one == other) & (one >= 0)
