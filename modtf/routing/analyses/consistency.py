"""Local routing consistency: how well one set of experts serves a segment of consecutive tokens."""

from typing import Any

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.routing.analyses.cache import hit_rows, hits, simulated_tokens
from modtf.routing.analyses.chance import permuted_within, rows_of
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.permuting import sample
from modtf.routing.analyses.registry import COLUMNS, Analysed, Analysis, Options, register_analysis
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

    The chance level permutes the tokens within each document.
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

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return SRP and SCH of every layer by segment length."""
        used = sample(data, MOST_TOKENS, options.seed)
        some, stacked = simulated_tokens(data, options)
        rows: list[dict[str, Any]] = []
        notes = data.notes
        for name, sampled, found in (
            ("SRP", used, srp_rows(used, options)), ("SCH", some, sch_rows(some, stacked, options)),
        ):  # fmt: skip
            rows += found
            notes += tuple(f"{name}: {note}" for note in sampled.notes[len(data.notes) :] if found)
        if not rows:
            note = "No document has a segment of 4 tokens, and the cache holds all experts."
            return Analysed(pd.DataFrame(columns=COLUMNS), (note,), (), notes)
        table = pd.DataFrame(rows).sort_values("layer", kind="stable", ignore_index=True)
        names = table["measure"].drop_duplicates()
        panels = [names[names.str.startswith(measure)].tolist() for measure in (SRP, SCH)]
        return self.result(table, data, list(filter(None, panels)), notes)

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        """Return what was found about consistency, for segments of 16 tokens or else of 4."""
        measures, what = set(table["measure"]), "keep the experts of consecutive tokens"
        known = [[f"{name}_{m}" for m in (16, 4) if f"{name}_{m}" in measures] for name in (SRP, SCH)]
        return [beyond_chance(table, names[0], what, data.names) for names in known if names]


def srp_rows(data: Choices, options: Options) -> list[dict[str, Any]]:
    """Return the rows of SRP."""
    assert data.experts is not None
    generator = options.generator()
    draws = min(options.permutations, MOST_DRAWS)
    orders = [permuted_within(data.documents, generator) for _ in range(draws)]
    cut = {length: segments(data.documents, length) for length in LENGTHS}
    rows: list[dict[str, Any]] = []
    for place in options.progress(range(len(data.layers))):
        experts, number = data.experts[place], data.num_experts
        value: dict[Any, float] = {}
        without: list[dict[Any, float]] = []
        chance: list[dict[Any, float]] = [{} for _ in orders]
        sizes = np.bincount(data.groups)
        for length, segment in cut.items():
            if segment.max() < 0:
                continue
            key = f"{SRP}_{length}"
            by_group = how_often(experts, segment, number, length, data.groups)
            value[key] = best_f1(by_group.sum(axis=0), length)
            if len(sizes) > 1:
                left_out = [best_f1(by_group.sum(axis=0) - one, length) for one in by_group]
                without = without or [{} for _ in left_out]
                for values, score in zip(without, left_out, strict=True):
                    values[key] = score
            for order, drawn in zip(orders, chance, strict=True):
                drawn[key] = best_f1(how_often(experts[order], segment, number, length)[0], length)
        rows += rows_of(
            data.layers[place], value, without, sizes[: len(without)].tolist(), chance,
            options.confidence, (0, 1),
        )  # fmt: skip
    return rows


def segments(documents: Ints, length: int) -> Ints:
    """Return the number of the segment of every token, from 0; -1 for the rest of a document."""
    sizes = np.bincount(documents)
    place = np.arange(len(documents)) - (np.cumsum(sizes) - sizes)[documents]
    whole = sizes // length
    found = (np.cumsum(whole) - whole)[documents] + place // length
    return np.where(place < (whole * length)[documents], found, -1)


def how_often(experts: Ints, segment: Ints, number: int, length: int, group: Ints | None = None) -> Ints:
    """Return how many (segment, expert) have each count of tokens `[groups, length + 1]`.

    Args:
        experts: choices `[T, k]`.
        segment: see `segments`.
        number: E.
        length: m.
        group: the group of every token `[T]`; None for one group.
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


def best_f1(often: Array, length: int) -> float:
    """Return SRP from the numbers of (segment, expert) with each count of tokens `[length + 1]`."""
    served = (often * np.arange(length + 1))[::-1].cumsum()[::-1]
    predicted = often[::-1].cumsum()[::-1] * length
    if not served[0]:
        return float("nan")
    return float((2 * served / (predicted + served[0])).max())


def sch_rows(data: Choices, stacked: Array, options: Options) -> list[dict[str, Any]]:
    """Return the rows of SCH, from a sample and its permuted choices."""
    assert data.experts is not None
    size = TIMES * data.experts.shape[2]
    if size >= data.num_experts:
        return []
    found = {f"{SCH}_{length}": hits(stacked, data.num_experts, size, ahead=length) for length in LENGTHS}
    return [row for place in range(len(data.layers)) for row in hit_rows(data, place, found, options)[0]]
