"""Cross-layer dependence: what a layer's choice says about the choice of the next layer."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.routing.analyses.chance import joint, members, rows_of
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysis, Options, register_analysis
from modtf.routing.analyses.sentences import beyond_chance
from modtf.routing.measuring.layers import Ints

BITS, ADJUSTED = "mutual_information", "adjusted_mutual_information"


@register_analysis("dependence")
class Dependence(Analysis):
    """Mutual information between the first choices of a layer and of the next layer.

    Numbers of experts mean nothing across layers, so an overlap of numbers is no measure of dependence.
    Mutual information does not change if experts are renumbered. Estimated from tokens it is too large,
    by about (E - 1)^2 / (2 tokens) nats. The mean E under shifted tokens estimates this bias:
    `adjusted_mutual_information` is (I - E) / (H - E), where H is the smaller entropy of the two choices.
    0 is no dependence, 1 means that one choice determines the other.

    The chance level shifts the choices of the next layer within each document by a random number of tokens,
    which may be 0. Tokens that pass the end of a document continue at its start. So neither a document's
    topic, which both layers may follow, nor runs of tokens with the same choice count as dependence between
    layers.
    """

    title = "Cross-layer dependence"
    about = "Shows how much the expert of one layer says about the expert of the next layer."
    definition = (
        "The mutual information of the first choices of consecutive layers, in bits; adjusted: minus its "
        "mean under shifted tokens, divided by the most that is possible beyond it."
    )
    source = (
        "Correction for chance: Vinh, Epps and Bailey (2010), 'Information Theoretic Measures for "
        "Clusterings Comparison', Journal of Machine Learning Research 11."
    )
    null = "The next layer's choices are shifted by a random number of tokens within each document."
    needs = ("tokens", "ranks", "several_tokens")
    panels: ClassVar = ((ADJUSTED,), (BITS,))
    most_tokens = 2**15

    def missing(self, data: Choices) -> str | None:
        """Return why the analysis cannot be computed; it needs two layers, too."""
        return super().missing(data) or (
            "needs at least two layers; this file has one" if len(data.layers) < 2 else None
        )

    def rows(self, data: Choices, options: Options) -> Iterator[dict[str, Any]]:
        generator = options.generator()
        orders = [shifted(data.documents, generator) for _ in range(options.permutations)]
        sizes = np.bincount(data.groups).tolist()
        number, log = data.num_experts, xlog2x(len(data.documents))
        for place in options.progress(range(len(data.layers) - 1)):
            first, after = (data.experts[one, :, 0].astype(np.int64) for one in (place, place + 1))
            by_chance = [information(joint(first, after[order], number), log)[0] for order in orders]
            whole = joint(first, after, number)
            parts = (joint(first[some], after[some], number) for some in members(data.groups))
            without = [information(whole - one, log)[0] for one in parts]
            bits, most = information(whole, log)
            value, *others = measures_of([bits, *without, *by_chance], by_chance, most)
            cut = len(sizes)
            yield from rows_of(
                data.layers[place], value, others[:cut], sizes, others[cut:], options.confidence
            )

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        measure = ADJUSTED if ADJUSTED in set(table["measure"]) else BITS
        what = "tell something about the choice of the next layer"
        return [beyond_chance(table, measure, what, data.names)]


def measures_of(bits: Sequence[float], by_chance: Sequence[float], most: float) -> list[dict[str, float]]:
    """Return the measures for each mutual information in `bits`, of which `most` is possible."""
    if not by_chance:
        return [{BITS: one} for one in bits]
    expected = float(np.mean(by_chance))
    scale = most - expected if most > expected else np.nan
    return [{BITS: one, ADJUSTED: (one - expected) / scale} for one in bits]


def shifted(documents: Ints, generator: np.random.Generator) -> Ints:
    """Return an order that shifts the tokens of each document around its end.

    All shifts are equally likely, that by the whole document included. Without it, the order of the file
    would be unlike all others in a short document. Documents are sorted from 0.
    """
    sizes = np.bincount(documents)
    starts = np.cumsum(sizes) - sizes
    shift = 1 + (generator.random(len(sizes)) * sizes).astype(np.int64)
    place = np.arange(len(documents)) - starts[documents]
    return np.asarray(starts[documents] + (place + shift[documents]) % sizes[documents])


def xlog2x(most: int) -> Array:
    """Return n log2 n for n from 0 to `most`."""
    n = np.arange(most + 1, dtype=np.float64)
    return n * np.log2(np.maximum(n, 1.0))


def information(counts: Ints, log: Array) -> tuple[float, float]:
    """Return the mutual information of rows and columns in bits, and the smaller of their entropies."""
    total = int(counts.sum())
    if not total:
        return np.nan, np.nan
    ends = [log[counts.sum(axis=axis)].sum() for axis in (0, 1)]
    entropies = [(log[total] - end) / total for end in ends]
    both = (log[total] - log[counts].sum()) / total
    return float(sum(entropies) - both), float(min(entropies))
