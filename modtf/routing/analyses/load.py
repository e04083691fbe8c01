"""Load: how evenly a layer's experts are used, overall and within each document."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.pages.text import plural
from modtf.routing.analyses.chance import balanced_loads, rows_of, rows_of_sums, same_loads
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysis, Options, register_analysis
from modtf.routing.analyses.sentences import above_chance, number_range, spread_of
from modtf.routing.measuring.layers import Ints

DOCUMENT, OVERALL, DEAD = "document_max_violation", "max_violation", "dead_experts"
WORST = 3  # layers that are named for their dead experts
DEALT = 2**16  # choices of a file of counts that are dealt to documents one by one
MOST_CELLS = 2**22  # documents times experts that are counted at a time


@register_analysis("load")
class Load(Analysis):
    """Utilisation, dead experts, maximum violation and coefficient of variation of the load.

    `document_max_violation` is the mean of MaxVio over documents, which is what a batch of one document would
    see. Its chance level is a router that ignores documents, with the load as it is.
    """

    title = "Load"
    about = "Shows how evenly experts are used, and whether each document uses them as evenly as all do."
    definition = (
        "MaxVio is the largest load of an expert divided by the mean load, minus 1; the coefficient of "
        "variation is the standard deviation of loads divided by their mean; a dead expert got no token."
    )
    source = (
        "MaxVio: Wang, Gao, Zhao, Sun and Dai (2024), 'Auxiliary-Loss-Free Load Balancing Strategy for "
        "Mixture-of-Experts', arXiv:2408.15664. Coefficient of variation: Shazeer et al. (2017), "
        "'Outrageously Large Neural Networks', arXiv:1701.06538."
    )
    null = (
        "Every token chooses k different experts at random; for documents, tokens are dealt to documents at "
        "random."
    )
    panels: ClassVar = ((OVERALL, DOCUMENT), ("load_variation",), (DEAD,))

    def rows(self, data: Choices, options: Options) -> Iterator[dict[str, Any]]:
        balanced: dict[tuple[int, ...], tuple[Array, dict[str, float]]] = {}
        measure = partial(measures_of, numbers=data.expert_numbers.tolist())
        for place in options.progress(range(len(data.layers))):
            generator = options.generator()
            per_group = data.counts(place, data.groups, int(data.groups.max()) + 1)
            tokens = data.tokens_by_choices(place)[0]
            key = tuple(tokens.tolist())
            if key not in balanced:
                loads = balanced_loads(tokens, data.num_experts, options.permutations, generator)
                balanced[key] = loads, balanced_limits(tokens, data.num_experts, len(data.layers))
            drawn, limits = balanced[key]
            most = {"utilisation": 1.0, "load": 1.0, DEAD: data.num_experts}
            for row in rows_of_sums(
                data, place, measure, list(per_group), drawn, options.confidence, (0, np.inf), most
            ):
                yield row | ({"limit": limits[row["measure"]]} if row["measure"] in limits else {})
            yield from document_rows(data, place, generator, options)

    def notes(self, data: Choices) -> list[str]:
        if (number := most_documents(data)) == data.num_documents:
            return []
        first = f"the first {number} of {data.num_documents} documents"
        return [f"The maximum violation within documents is that of {first}."]

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        found = []
        dead = table[(table["measure"] == DEAD) & (table["value"] > 0)]
        if table["chance_high"].notna().any():
            dead = dead[dead["layer"].isin(above_chance(table, DEAD))]
        worst = dead.sort_values("value", ascending=False, kind="stable").head(WORST)
        for row in worst.itertuples():
            verb, them = ("is", "it") if row.value == 1 else ("are", "them")
            band = number_range(row.chance_low, row.chance_high, is_count=True)
            chance = "" if np.isnan(row.chance_low) else f", chance {band}"
            found.append(
                f"{plural(int(row.value), 'expert')} of layer {data.names.layer(row.layer)} {verb} dead: no "
                f"token chose {them}{chance}."
            )
        if (more := len(dead) - len(worst)) > 0:
            found.append(f"{plural(more, 'more layer')} {'has' if more == 1 else 'have'} dead experts.")
        if dead.empty:
            found.append("No layer has more dead experts than a balanced router would have.")
        found.append(f"The busiest expert of a layer: maximum violation {spread_of(table, OVERALL)}.")
        if (table["measure"] == DOCUMENT).any():
            found.append(f"Within documents the maximum violation is {spread_of(table, DOCUMENT)}.")
        return found


def measures_of(counts: Array, numbers: Sequence[int]) -> dict[Any, float]:
    """Return the measures of one layer from the counts of its experts `[E]`, and the load of each expert.

    `numbers` `[E]` are the experts' numbers.
    """
    shares = (counts / max(float(counts.sum()), 1.0)).tolist()
    mean = max(float(counts.mean()), 1e-300)
    dead = int((counts <= 0).sum())
    return {
        "utilisation": 1.0 - dead / len(counts),
        DEAD: float(dead),
        OVERALL: float(counts.max()) / mean - 1.0,
        "load_variation": float(counts.std()) / mean,
    } | {("load", expert): share for expert, share in zip(numbers, shares, strict=True)}


def balanced_limits(tokens: Ints, num_experts: int, num_layers: int) -> dict[str, float]:
    """Return what at most 2.5% of balanced routers exceed in some layer: dead experts, maximum violation.

    Draws of routers cannot say that for many layers. An expert's count is binomial. So nearly is the number
    of dead experts, of whose distribution mean and variance are known. The largest count is bounded by the
    sum of all experts' probabilities. `tokens` `[k + 1]` says how many tokens choose each number of experts,
    from 0.
    """
    from scipy.stats import binom  # slow to import

    number, tail = int(tokens[1:].sum()), 0.025 / num_layers
    if not number:
        return {}
    share = float(np.arange(len(tokens)) @ tokens) / number / num_experts
    one = 1.0 - share  # the probability that a token leaves out an expert; two experts
    two = one * max(1.0 - share * num_experts / max(num_experts - 1, 1), 0.0)
    mean = num_experts * one**number
    pairs = num_experts * (num_experts - 1) * two**number
    spread = np.clip((mean + pairs - mean**2) / max(mean, 1e-300), 0.0, 1.0)  # variance / mean
    trials = np.ceil(mean / max(1 - spread, mean / 1e6, 1e-12))
    return {
        DEAD: float(binom.isf(tail, trials, min(mean / max(trials, 1), 1.0))),
        OVERALL: float(binom.isf(tail / num_experts, number, share) / (number * share) - 1.0),
    }


def document_rows(
    data: Choices, place: int, generator: np.random.Generator, options: Options
) -> list[dict[str, object]]:
    """Return the row of the mean maximum violation of documents, which needs at least two documents."""
    number = most_documents(data)
    if number < 2:
        return []
    rows = data.documents < number
    documents = np.where(rows, data.documents, number)
    counts = data.counts(place, documents, number + 1)[:number]
    sizes = counts.sum(axis=1)
    violation, draws = violations(counts), options.permutations
    value = {DOCUMENT: float(violation.mean())}
    without = [{DOCUMENT: (violation.sum() - v) / max(len(violation) - 1, 1)} for v in violation.tolist()]
    if data.sums is None:
        dealt = (np.append(generator.permutation(documents[rows]), documents[~rows]) for _ in range(draws))
        drawn: Iterable[Array | Ints] = (data.counts(place, one, number + 1)[:number] for one in dealt)
    else:
        both = sizes.astype(np.int64), counts.sum(axis=0).astype(np.int64)
        drawn = dealt_choices(*both, data.top_k or 1, draws, generator)
    chance = [{DOCUMENT: float(violations(one).mean())} for one in drawn]
    return rows_of(
        data.layers[place], value, without, np.ones(len(without)).tolist(), chance, options.confidence,
        (0, np.inf),
    )  # fmt: skip


def most_documents(data: Choices) -> int:
    """Return how many documents, the first ones, are counted for the violation within documents."""
    return min(data.num_documents, max(MOST_CELLS // data.num_experts, 2))


def dealt_choices(
    sizes: Ints, loads: Ints, top_k: int, draws: int, generator: np.random.Generator
) -> Iterator[Array | Ints]:
    """Yield counts `[D, E]` if tokens of `top_k` different experts are dealt to documents at random.

    Up to `DEALT` choices are dealt exactly. The counts of more are normal: the deviations of a multinomial
    distribution, with a sum of 0 over documents, scaled to the variance of choices without replacement.
    Documents have `sizes` `[D]` choices, and experts have `loads` `[E]`.
    """
    total, number = int(sizes.sum()), len(loads)
    if total > DEALT:
        load = loads / total
        mean = sizes[:, np.newaxis] * load
        scale = np.maximum(1.0 - top_k * load, 0.0) / np.maximum(1.0 - load, 1e-9)
        for _ in range(draws):
            apart = generator.multinomial(sizes, load) - mean
            apart -= (sizes / total)[:, np.newaxis] * apart.sum(axis=0)
            counts = np.maximum(mean + np.sqrt(scale) * apart, 0.0)
            yield counts * (sizes / np.maximum(counts.sum(axis=1), 1e-9))[:, np.newaxis]
        return
    document = np.repeat(np.arange(len(sizes)), -(-sizes // top_k))
    experts = np.full(top_k * len(document), -1)  # choices of one expert are those of different tokens
    experts[:total] = np.repeat(np.arange(number), loads)
    one, tokens = np.zeros(len(document), np.int64), experts.reshape(top_k, -1).T
    for some in same_loads(tokens, one, draws, generator):
        cell = np.where(some < 0, -1, generator.permutation(document)[:, np.newaxis] * number + some)
        yield np.bincount(cell[cell >= 0], minlength=len(sizes) * number).reshape(len(sizes), number)


def violations(counts: Array | Ints) -> Array:
    """Return the maximum violation of each row of counts `[D, E]` that is not 0."""
    sizes = counts.sum(axis=1)
    used = sizes > 0
    return np.asarray(counts[used].max(axis=1) * counts.shape[1] / sizes[used] - 1.0)
