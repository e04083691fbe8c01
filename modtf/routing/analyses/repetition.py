"""Repeated assignment: how often consecutive tokens go to the same expert."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.routing.analyses.chance import permuted_within, rows_of
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.permuting import divided, ratios, sample
from modtf.routing.analyses.registry import Analysed, Analysis, Options, register_analysis
from modtf.routing.analyses.sentences import beyond_chance
from modtf.routing.measuring.layers import Ints

FIRST, ANY = "first_choice_repeated", "any_choice_repeated"
MOST_TOKENS = 2**15


@register_analysis("repetition")
class Repetition(Analysis):
    """How often a token and the next one of its document go to the same expert.

    `first_choice_repeated` is the share of pairs of consecutive tokens with the same first choice.
    `any_choice_repeated` is the share of pairs with at least one expert in common. Both grow with unequal
    loads and with k, so only the difference from permuted tokens says something about order.

    The chance level permutes the tokens within each document. It keeps the load of every document, so a
    document's topic alone does not count.
    """

    title = "Repeated assignment"
    about = (
        "Shows whether consecutive tokens go to the same expert more often than other tokens of a document."
    )
    definition = (
        "The share of pairs of consecutive tokens with the same first choice, or with at least one common "
        "expert among all choices."
    )
    source = "Jiang et al. (2024), 'Mixtral of Experts', arXiv:2401.04088, table 5."
    null = "The tokens of each document are permuted."
    needs = ("tokens", "several_tokens")
    panels: ClassVar = ((FIRST,), (ANY,))

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return the repetitions of every layer."""
        data = sample(data, MOST_TOKENS, options.seed)
        assert data.experts is not None
        documents = data.documents
        generator = options.generator()
        orders = [permuted_within(documents, generator) for _ in range(options.permutations)]
        same, groups = np.diff(documents) == 0, data.groups[1:]
        rows: list[dict[str, Any]] = []
        for place in options.progress(range(len(data.layers))):
            first = data.experts[place, :, 0]
            bits = bits_of(data.experts[place], data.num_experts)
            whole = repeated(first, bits, same)
            value, without, sizes = ratios({name: whole[name] for name in self.measures(data)}, groups)
            chance = [
                {name: divided(*map(np.count_nonzero, some[name])) for name in value}
                for order in orders
                for some in [repeated(first[order], bits[order], same)]
            ]
            rows += rows_of(data.layers[place], value, without, sizes, chance, options.confidence, (0, 1))
        return self.result(rows, data, [panel for panel in self.panels if panel[0] in self.measures(data)])

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        """Return what was found about repetitions."""
        words = {
            FIRST: "send consecutive tokens to the same first choice",
            ANY: "send consecutive tokens to a common expert",
        }
        measures = table["measure"].drop_duplicates()
        return [beyond_chance(table, measure, words[measure], data.names) for measure in measures]

    def measures(self, data: Choices) -> tuple[str, ...]:
        """Return the measures that differ and can be computed."""
        if data.top_k == 1:
            return (FIRST,)
        return (FIRST, ANY) if data.ranked else (ANY,)


def bits_of(experts: Ints, num_experts: int) -> NDArray[np.uint64]:
    """Return the experts of tokens `[T, k]` as bits of integers `[T, words]`; dropped choices set none."""
    found = np.zeros((len(experts), -(-num_experts // 64)), np.uint64)
    rows = np.arange(len(experts))
    for choice in experts.T.astype(np.int64):
        bit = np.where(choice >= 0, np.uint64(1) << (choice % 64).astype(np.uint64), np.uint64(0))
        found[rows, np.maximum(choice, 0) // 64] |= bit
    return found


def repeated(
    first: Ints, bits: NDArray[np.uint64], same: NDArray[np.bool_]
) -> dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Return for each pair of consecutive tokens whether it repeats an expert, and whether it counts.

    Args:
        first: the first choice of every token `[T]`; -1 if the token was dropped.
        bits: all choices of every token, see `bits_of`.
        same: whether a token and the next one are of one document `[T - 1]`.
    """
    taken = first >= 0
    counts = same & taken[1:] & taken[:-1]
    shared = np.bitwise_and(bits[1:], bits[:-1]).any(axis=1)
    return {FIRST: (counts & (first[1:] == first[:-1]), counts), ANY: (counts & shared, counts)}
