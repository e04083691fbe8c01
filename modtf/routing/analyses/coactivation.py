"""Co-activation: experts that the same tokens choose together."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.routing.analyses.chance import joint, members, rows_of, rows_of_sums, same_loads, without_band
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysis, Options, register_analysis
from modtf.routing.analyses.sentences import above_chance
from modtf.routing.measuring.layers import Ints

PARTNER, PAIR = "top_partner_share", "coactivation"
MOST_DRAWS = 9  # of matrices with the same loads
PAIRS = 5  # pairs of a layer that are listed


@register_analysis("coactivation")
class Coactivation(Analysis):
    """How often two experts are chosen by the same token, over all pairs of a token's experts.

    `top_partner_share` is the share of choices whose expert's most frequent partner is chosen, too. A maximum
    over many pairs is large for any router, so it is compared with chance. `coactivation` lists the pairs of
    experts that differ most from chance, item "i+j": N_ij divided by the smaller of N_i and N_j.

    The chance level is simulated: the tokens and experts of a document form a matrix of zeros and ones, whose
    rows have k ones and whose columns have the document's loads of experts. All matrices with these sums are
    equally likely, as if every token chose k different experts independently of each other at these loads. So
    experts that only serve the same documents are no pair. The matrices come from random swaps: two tokens of
    a document exchange an expert if neither has the other's already. If tokens differ in the number of
    choices, only tokens with equally many exchange experts.
    """

    title = "Expert co-activation"
    about = (
        "Shows whether experts work in fixed groups: pairs that tokens choose together more than by chance."
    )
    definition = (
        "N_ij / N_i, the share of the tokens of expert i that also choose expert j; the largest value over "
        "j, averaged over experts weighted by load."
    )
    source = "Muennighoff et al. (2024), 'OLMoE: Open Mixture-of-Experts Language Models', arXiv:2409.02060."
    null = "Every token chooses k different experts independently, at the loads of its document."
    needs = ("tokens", "several_choices", "several_tokens")
    panels: ClassVar = ((PARTNER,),)
    finds: ClassVar = {PARTNER: "choose experts in fixed pairs"}
    most_tokens = 2**13

    def rows(self, data: Choices, options: Options) -> Iterator[dict[str, Any]]:
        """Yield the co-activation of every layer, and its pairs that differ most from chance."""
        draws, number = min(options.permutations, MOST_DRAWS), data.num_experts
        for place in options.progress(range(len(data.layers))):
            experts = data.experts[place]
            sums = [pairs(experts[some], number) for some in members(data.groups)]
            order, alike = alike_tokens(experts, data.documents)
            loads = same_loads(experts[order], alike, draws, options.generator())
            drawn = [pairs(some, number) for some in loads]
            yield from rows_of_sums(data, place, partner_share, sums, drawn, options.confidence)
            whole = np.sum(sums, axis=0)
            yield from pair_rows(data.layers[place], data.expert_numbers, whole, np.array(drawn))

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        found = super().sentences(table, data)
        layers = above_chance(table, PARTNER)
        pair = table[(table["measure"] == PAIR) & table["layer"].isin(layers)]
        if len(pair):
            # The first pair of a layer is the most certain one. Others may be rare experts that met once.
            pair = pair.drop_duplicates("layer")
            best = pair.loc[(pair["value"] - pair["chance"]).astype(float).idxmax()]
            found.append(
                f"Experts {best['item'].replace('+', ' and ')} of layer {data.names.layer(best['layer'])} go "
                f"together in {best['value']:.0%} of the less used one's tokens, by chance "
                f"{best['chance']:.0%}."
            )
        return found


def pairs(experts: NDArray[Any], number: int) -> Ints:
    """Return how many tokens chose both experts of each pair `[E, E]`, from choices `[T, k]`.

    The diagonal holds the loads of experts.
    """
    matrix = np.zeros((number, number), np.int64)
    for step in range(1, experts.shape[1]):
        one, other = experts[:, step:].ravel(), experts[:, :-step].ravel()
        matrix += joint(one.astype(np.int32), other, number)
    loads = np.bincount(experts[experts >= 0], minlength=number)
    return np.asarray(matrix + matrix.T + np.diag(loads))


def partner_share(together: Ints) -> dict[str, float]:
    """Return the share of choices whose expert's most frequent partner is chosen by the same token.

    `together` `[E, E]` are the tokens that chose both experts; on the diagonal those that chose one.
    """
    loads = np.diag(together)
    partner = (together - np.diag(loads)).max(axis=1)
    total = loads.sum()
    return {PARTNER: float(partner.sum() / total) if total else float("nan")}


def alike_tokens(experts: NDArray[Any], documents: Ints) -> tuple[Ints, Ints]:
    """Return an order of tokens, and their classes: tokens of one document with equally many choices."""
    width = experts.shape[1] + 1
    key = documents * width + (experts >= 0).sum(axis=1)
    order = np.argsort(key, kind="stable")
    return order, np.unique(key[order], return_inverse=True)[1]


def pair_rows(layer: int, numbers: Ints, together: Ints, drawn: NDArray[Any]) -> list[dict[str, Any]]:
    """Return rows of the pairs that differ most from chance, in standard deviations of a Poisson count.

    `together` `[E, E]` are the tokens that chose both experts, `drawn` `[draws, E, E]` the same by chance,
    and `numbers` `[E]` the experts' numbers.
    """
    if not len(drawn):
        return []
    loads = np.diag(together)
    expected = drawn.mean(axis=0)
    excess = np.triu((together - expected) / np.sqrt(expected + 1.0), 1)
    best = np.argsort(-excess, axis=None, kind="stable")[:PAIRS]
    rows: list[dict[str, Any]] = []
    for i, j in zip(*np.unravel_index(best, excess.shape), strict=True):
        if excess[i, j] > 0:
            most = max(min(int(loads[i]), int(loads[j])), 1)
            key = PAIR, f"{numbers[i]}+{numbers[j]}"
            chance = [{key: value} for value in drawn[:, i, j] / most]
            rows += without_band(rows_of(layer, {key: together[i, j] / most}, chance=chance, bounds=(0, 1)))
    return rows
