"""Repeated assignment: how often consecutive tokens go to the same expert."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from modtf.routing.analyses.chance import permuted_within, rows_of_ratios
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysis, Options, register_analysis
from modtf.routing.measuring.layers import Ints

FIRST, ANY = "first_choice_repeated", "any_choice_repeated"


@register_analysis("repetition")
class Repetition(Analysis):
    """How often a token and the next one of its document go to the same expert.

    Both shares grow with unequal loads and with k, so only the difference from permuted tokens says something
    about order. The chance level keeps the load of every document, so a document's topic alone does not
    count.
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
    finds: ClassVar = {
        FIRST: "send consecutive tokens to the same first choice",
        ANY: "send consecutive tokens to a common expert",
    }
    most_tokens = 2**15

    def rows(self, data: Choices, options: Options) -> Iterator[dict[str, Any]]:
        """Yield the repetitions of every layer, of the measures that differ and can be computed."""
        generator = options.generator()
        orders = [permuted_within(data.documents, generator) for _ in range(options.permutations)]
        same, groups = np.diff(data.documents) == 0, data.groups[1:]
        several = (FIRST, ANY) if data.ranked else (ANY,)
        measures = (FIRST,) if data.top_k == 1 else several
        for place in options.progress(range(len(data.layers))):
            first = data.experts[place, :, 0]
            bits = bits_of(data.experts[place], data.num_experts)
            whole = repeated(first, bits, same)
            parts = {name: whole[name] for name in measures}
            drawn = (repeated(first[order], bits[order], same) for order in orders)
            yield from rows_of_ratios(data.layers[place], parts, groups, drawn, options.confidence)


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

    `first` `[T]` are first choices, `bits` all choices, see `bits_of`. `same` `[T - 1]` says whether a token
    and the next one are of one document.
    """
    taken = first >= 0
    counts = same & taken[1:] & taken[:-1]
    shared = np.bitwise_and(bits[1:], bits[:-1]).any(axis=1)
    return {FIRST: (counts & (first[1:] == first[:-1]), counts), ANY: (counts & shared, counts)}
