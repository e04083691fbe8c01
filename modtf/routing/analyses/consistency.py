"""Local routing consistency: how well one set of experts serves a segment of consecutive tokens."""

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.routing.analyses.cache import hits, simulated, simulated_tokens
from modtf.routing.analyses.chance import permuted_within, rows_of_ratios, rows_of_sums
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysed, Analysis, Options, register_analysis
from modtf.routing.analyses.sentences import beyond_chance
from modtf.routing.measuring.layers import Ints

SRP, SCH = "segment_routing_best_performance", "segment_cache_best_hit_rate"
LENGTHS = (4, 16, 64)  # of segments, in tokens
TIMES = 2  # the cache of SCH, in experts per token
MOST_TOKENS = 2**13
MOST_DRAWS = 9


@register_analysis("consistency")
class Consistency(Analysis):
    """Segment routing best performance (SRP) and segment cache best hit rate (SCH).

    SRP: a segment router chooses one set of experts for all m tokens of a segment. It is compared with the
    real choices by F1, twice the choices that it serves divided by the sum of its choices and the real ones,
    over all segments of a layer. The best such router chooses the experts that at least c tokens of the
    segment chose; SRP is the F1 of the best c. Segments do not cross documents and do not overlap (the
    published code moves them by one token).

    SCH: the hit rate of a cache of 2k experts that knows how often each expert is chosen in the next m
    tokens, and keeps the most frequent ones, the most recently used among equals. The cache starts empty and
    first uses count as misses (in the published code, as hits while the cache has room).
    """

    title = "Local routing consistency"
    about = "Shows whether consecutive tokens need the same experts, so that few experts in memory would do."
    definition = (
        "SRP: the largest F1 of a router that chooses one set of experts per segment of m tokens. SCH: the "
        "hit rate of a cache of 2k experts that keeps those that the next m tokens use most."
    )
    source = (
        "Liang et al. (2025), 'Not All Models Suit Expert Offloading: On Local Routing Consistency of "
        "Mixture-of-Expert Models', arXiv:2505.16056, and its code, github.com/ljcleo/moe-lrc."
    )
    null = "The tokens of each document are permuted."
    needs = ("tokens", "several_tokens")

    panels: ClassVar = tuple([f"{name}_{length}" for length in LENGTHS] for name in (SRP, SCH))

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return SRP and SCH of every layer by segment length."""
        used = data.sample(MOST_TOKENS, options.seed)
        some, stacked = simulated_tokens(data, options)
        of_segments = list(srp_rows(used, options))
        of_caches = list(sch_rows(some, stacked, options))
        rows, known = of_segments + of_caches, len(data.notes)
        notes = [f"SRP: {note}" for note in used.notes[known:] if of_segments]
        notes += [f"SCH: {note}" for note in some.notes[known:] if of_caches]
        if not rows:
            why = "No document has a segment of 4 tokens, and the cache holds all experts."
            return self.nothing(why, data.notes)
        table = pd.DataFrame(rows).sort_values("layer", kind="stable", ignore_index=True)
        return self.result(table, data, notes)

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        """Return what was found about consistency, for segments of 16 tokens or else of 4."""
        measures, what = set(table["measure"]), "keep the experts of consecutive tokens"
        known = [[f"{name}_{m}" for m in (16, 4) if f"{name}_{m}" in measures] for name in (SRP, SCH)]
        return [beyond_chance(table, names[0], what, data.names) for names in known if names]


def srp_rows(data: Choices, options: Options) -> Iterator[dict[str, Any]]:
    generator, number = options.generator(), data.num_experts
    draws = min(options.permutations, MOST_DRAWS)
    orders = [permuted_within(data.documents, generator) for _ in range(draws)]
    cut = {length: segments(data.documents, length) for length in LENGTHS}
    for place in options.progress(range(len(data.layers))):
        experts = data.experts[place]
        for length, segment in cut.items():
            if segment.max() >= 0:
                by_group = how_often(experts, segment, number, length, data.groups)
                drawn = (how_often(experts[order], segment, number, length)[0] for order in orders)
                measure = partial(best_f1, length=length)
                yield from rows_of_sums(data, place, measure, list(by_group), drawn, options.confidence)


def segments(documents: Ints, length: int) -> Ints:
    """Return the number of the segment of every token, from 0; -1 for the rest of a document."""
    sizes = np.bincount(documents)
    place = np.arange(len(documents)) - (np.cumsum(sizes) - sizes)[documents]
    whole = sizes // length
    found = (np.cumsum(whole) - whole)[documents] + place // length
    return np.where(place < (whole * length)[documents], found, -1)


def how_often(experts: Ints, segment: Ints, number: int, length: int, group: Ints | None = None) -> Ints:
    """Return how many (segment, expert) have each count of tokens `[groups, length + 1]`.

    `experts` are choices `[T, k]` of `number` experts; `segment` and `group` are those of every token `[T]`.
    """
    inside = segment >= 0
    chosen = experts[inside].astype(np.int64)
    key = segment[inside, np.newaxis] * number + chosen
    num_segments = int(segment.max()) + 1
    counts = np.bincount(key[chosen >= 0], minlength=num_segments * number)
    if group is None:
        return np.bincount(counts, minlength=length + 1)[np.newaxis]
    num_groups = int(group.max()) + 1
    of_segment = np.zeros(num_segments, np.int64)
    of_segment[segment[inside]] = group[inside]
    cell = np.repeat(of_segment, number) * (length + 1) + counts
    return np.bincount(cell, minlength=num_groups * (length + 1)).reshape(num_groups, length + 1)


def best_f1(often: Array, length: int) -> dict[str, float]:
    """Return SRP from the numbers of (segment, expert) with each count of tokens `[length + 1]`."""
    served = (often * np.arange(length + 1))[::-1].cumsum()[::-1]
    predicted = often[::-1].cumsum()[::-1] * length
    best = float((2 * served / (predicted + served[0])).max()) if served[0] else float("nan")
    return {f"{SRP}_{length}": best}


def sch_rows(data: Choices, stacked: Array, options: Options) -> Iterator[dict[str, Any]]:
    """Yield the rows of SCH, from a sample and its permuted choices."""
    size = TIMES * data.experts.shape[2]
    if size >= data.num_experts:
        return
    found = {f"{SCH}_{length}": hits(stacked, data.num_experts, size, ahead=length) for length in LENGTHS}
    for place, layer in enumerate(data.layers):
        in_order, _, *drawn = simulated(data, place, found)
        yield from rows_of_ratios(layer, in_order, data.groups, drawn, options.confidence)
