"""Cache simulation: how many experts would be found in a cache of a given size."""

from collections.abc import Iterator, Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from modtf.pages.pictures import STYLE, Picture
from modtf.routing.analyses.chance import Ratios, permuted_within, rows_of_ratios
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysed, Analysis, Options, register_analysis
from modtf.routing.drawing import COLOURS, GREY

LRU, LFU = "lru_hit_rate", "lfu_hit_rate"
POLICIES = {LRU: "least recently used", LFU: "least frequently used"}
SHUFFLED = "shuffled"
WORK = 2**28  # comparisons of one policy and size, which limit the tokens
MOST_TOKENS = 2**11
MOST_DRAWS = 9
SIZES = (1, 2, 4, 8)  # of caches, in experts per token
PROTECTED = 2**30  # the experts of the current token stay in the cache


@register_analysis("cache")
class Cache(Analysis):
    """Hit rate of a cache of experts in each layer, against the number of experts that fit.

    The tokens run in order, document after document. An expert of a token is a hit if it is in the cache
    before the token. Then all experts of the token are loaded, and others leave until the cache has its size:
    the least recently used (LRU), or the least frequently used so far (LFU, with the least recently used
    first among equals). The cache starts empty and stays filled between documents.

    The chance level permutes the tokens within each document: a router without locality beyond what a
    document's load gives. The rows of item "shuffled" permute tokens over all documents: what the overall
    loads give alone.
    """

    title = "Expert cache"
    about = "Shows how many experts would be found in a cache, such as the memory of an accelerator."
    definition = (
        "The share of chosen experts that are in the cache before the token, for caches that evict the least "
        "recently used (LRU) or the least frequently used expert (LFU)."
    )
    source = (
        "Cache policies as in Eliseev and Mazur (2023), 'Fast Inference of Mixture-of-Experts Language "
        "Models with Offloading', arXiv:2312.17238, and Liang et al. (2025), arXiv:2505.16056."
    )
    null = "The tokens of each document are permuted."
    needs = ("tokens", "several_tokens")

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return the hit rates of every layer by policy and size."""
        data, stacked = simulated_tokens(data, options)
        sizes = [stacked.shape[2] * size for size in SIZES]
        found = {
            f"{policy}_{size}": hits(stacked, data.num_experts, size, frequent=policy == LFU)
            for size in options.progress([size for size in sizes if size < data.num_experts])
            for policy in POLICIES
        }
        if not found:
            note = f"All caches of {sizes[0]} or more experts hold all {data.num_experts} experts."
            return self.nothing(note, data.notes)
        rows: list[dict[str, Any]] = []
        for place, layer in enumerate(data.layers):
            in_order, shuffled, *drawn = simulated(data, place, found)
            rows += rows_of_ratios(layer, in_order, data.groups, drawn, options.confidence)
            one_group = np.zeros_like(data.groups)  # no interval
            others = rows_of_ratios(layer, shuffled, one_group, (), options.confidence)
            rows += [row | {"item": SHUFFLED} for row in others]
        table = pd.DataFrame(rows)
        return Analysed(table, tuple(sentences(table)), (draw_cache(table),), data.notes)


def simulated_tokens(data: Choices, options: Options) -> tuple[Choices, NDArray[Any]]:
    """Return a sample of the choices, and choices `[draws * layers, T, k]` to simulate.

    The draws are: the tokens in order, permuted over all documents, and permuted within documents.
    """
    draws = min(options.permutations, MOST_DRAWS)
    work = (draws + 2) * len(data.layers) * (data.num_experts + 1)
    data = data.sample(min(max(WORK // work, 256), MOST_TOKENS), options.seed)
    generator = options.generator()
    orders = [np.arange(len(data.documents)), generator.permutation(len(data.documents))]
    orders += [permuted_within(data.documents, generator) for _ in range(draws)]
    return data, np.concatenate([data.experts[:, order] for order in orders])


def simulated(data: Choices, place: int, hits_of: Mapping[str, NDArray[Any]]) -> Iterator[Ratios]:
    """Yield the hits and the choices of a layer's tokens by measure, for each draw of `simulated_tokens`.

    `hits_of` has the hits of all draws and layers, `[draws * layers, T]`.
    """
    chosen, layers = (data.experts[place] >= 0).sum(axis=1), len(data.layers)
    for one in range(place, len(next(iter(hits_of.values()))), layers):
        yield {measure: (every[one], chosen) for measure, every in hits_of.items()}


def hits(
    experts: NDArray[Any], number: int, size: int, frequent: bool = False, ahead: int | None = None
) -> NDArray[np.int64]:
    """Return how many experts of each token are in a cache `[R, T]`, for R independent runs.

    Args:
        experts: the choices of every run `[R, T, k]`; -1 for a dropped choice.
        number: E.
        size: experts that fit into the cache, at least k and less than E.
        frequent: evict the least frequently used expert so far, not the least recently used.
        ahead: evict the expert that the next `ahead` tokens use least.
    """
    runs, num_tokens, width = experts.shape
    chosen = np.where(experts < 0, number, experts).astype(np.intp)  # column E takes dropped choices
    run = np.arange(runs)[:, np.newaxis]
    scale = num_tokens * width + 1  # one use more counts for more than being more recent
    kind = np.int32 if scale * (num_tokens + 1) < PROTECTED else np.int64  # int32 is faster
    score, recent = (np.zeros((runs, number + 1), kind) for _ in range(2))
    inside = np.zeros((runs, number + 1), bool)
    found = np.zeros((runs, num_tokens), np.int64)
    for token in range(min(ahead or 0, num_tokens)):
        score[run, chosen[:, token]] += scale
    for token in range(num_tokens):
        now = chosen[:, token]
        found[:, token] = inside[run, now].sum(axis=1)
        newest = np.arange((token + 1) * width, token * width, -1, dtype=kind)
        gain = scale * (int(frequent) - int(ahead is not None))
        score[run, now] += newest - recent[run, now] + gain
        recent[run, now] = newest
        if ahead is not None and token + ahead < num_tokens:
            score[run, chosen[:, token + ahead]] += scale
        inside[run, now] = True
        priority = np.where(inside, score, -1)
        priority[run, now] += PROTECTED
        priority[:, number] = -1
        least = np.partition(priority, number + 1 - size, axis=1)[:, number + 1 - size, np.newaxis]
        np.greater_equal(priority, np.maximum(least, 0), out=inside)
    return found


def draw_cache(table: pd.DataFrame) -> Picture:
    """Draw the hit rate against the cache size: mean over layers, least and largest layer, and chance."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.2), dpi=100, layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
    policy = table["measure"].str.rsplit("_", n=1)
    some = table.assign(policy=policy.str[0], size=policy.str[1].astype(int))
    for axes, (name, title), colour in zip(panels, POLICIES.items(), COLOURS, strict=False):
        mine = some[some["policy"] == name]
        part, rest = (mine[mine["item"] == item].groupby("size") for item in ("", SHUFFLED))
        mean = part[["value", "chance"]].mean()
        axes.plot(mean.index, mean["value"], "o-", ms=4, color=colour, label="in order")
        axes.fill_between(
            mean.index, part["value"].min(), part["value"].max(), color=colour, alpha=0.15, lw=0
        )
        axes.plot(mean.index, mean["chance"], "s--", ms=3, color=GREY, label="permuted within documents")
        axes.plot(mean.index, rest["value"].mean(), ":", color="black", label="permuted over all documents")
        axes.set_title(f"Evict the {title} expert", size=9.5)
        axes.set_xlabel("experts in the cache of a layer")
        axes.set_xticks(mean.index)
        axes.set_ylim(0, 1.02)
    panels[0].set_ylabel("hit rate")
    panels[0].legend(frameon=False, fontsize=8)
    note = "Means over layers. The coloured bands hold all layers."
    return Picture("cache", "Hit rate of a cache of experts", note, figure, table)


def sentences(table: pd.DataFrame) -> list[str]:
    """Return what was found about the second smallest cache."""
    sizes = sorted({int(measure.rsplit("_", 1)[1]) for measure in table["measure"]})
    size, found = sizes[min(1, len(sizes) - 1)], []
    for policy, words in POLICIES.items():
        part = table[table["measure"] == f"{policy}_{size}"]
        rest = part[part["item"] == SHUFFLED]["value"].mean()
        mean = part[part["item"] == ""][["value", "chance"]].mean()
        text = f"A cache of {size} experts that evicts the {words} one hits {mean['value']:.0%} of choices"
        if not np.isnan(mean["chance"]):
            text += f", {mean['chance']:.0%} if tokens are permuted within documents"
        found.append(f"{text}, {rest:.0%} if they are permuted over all documents.")
    return found
