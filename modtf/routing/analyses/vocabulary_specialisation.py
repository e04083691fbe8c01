"""Vocabulary specialisation: whether tokens of the same id go to the same expert."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.routing.analyses.chance import permuted_within, rows_of, without_band
from modtf.routing.analyses.choices import Choices
from modtf.routing.analyses.registry import Analysed, Analysis, Options, register_analysis
from modtf.routing.analyses.sentences import above_chance, beyond_chance, number_range, percent
from modtf.routing.measuring.estimates import FEWEST_DRAWS, Excess
from modtf.routing.measuring.layers import Ints

FREQUENT = 10  # occurrences of a frequent id
TOP = 5  # ids that are listed for each layer
Chosen = NDArray[np.int32]


@register_analysis("vocabulary_specialisation")
class VocabularySpecialisation(Analysis):
    """The share of the tokens of one id that go to that id's most frequent expert, averaged over ids.

    The published average depends on the size of the data. Beside it, `_frequent` averages over ids with at
    least 10 tokens, and `_excess` subtracts the mean under permuted ids. `input` is the id of the token,
    `next` the id of the token that follows in the document, and `predicted` the id that the model predicted,
    if the file has an array `predicted_tokens`. `first_choice` counts the choice with the largest weight,
    `any_choice` all k choices of a token.
    """

    title = "Vocabulary specialisation"
    about = "Shows whether tokens of the same id go to the same expert."
    definition = (
        "For each token id, the largest share of its tokens that one expert takes; the mean over ids. An id "
        "that occurs once counts as 100%, so a random router scores high: compare with chance."
    )
    source = "Muennighoff et al. (2024), 'OLMoE: Open Mixture-of-Experts Language Models', arXiv:2409.02060."
    null = "Token ids are permuted within documents."
    needs = ("tokens", "token_ids", "several_tokens")

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return the vocabulary specialisation of every layer, and its most specialised token ids."""
        kinds = [Kind(name, ids, rows, data, options) for name, ids, rows in id_kinds(data)]
        rows: list[dict[str, Any]] = []
        for place in options.progress(range(len(data.layers))):
            chosen = np.ascontiguousarray(data.experts[place], np.int32)
            for kind in kinds:
                for choice, width in widths(data, kind.name).items():
                    name, some = f"{choice}_{kind.name}", chosen[kind.rows, :width]
                    found, items = kind.measure(name, some, data, place, options)
                    rows += found
                    rows += items if kind.name == "input" and choice == main_choice(data) else []
        measures = [f"{main_choice(data)}_{kind.name}" for kind in kinds]
        return self.result(rows, data, panels=[[f"{measure}_frequent", measure] for measure in measures])

    def sentences(self, table: pd.DataFrame, data: Choices) -> list[str]:
        published = f"{main_choice(data)}_input"
        frequent = f"{published}_frequent"
        found = []
        if table.loc[table["measure"] == frequent, "value"].notna().any():
            title = "the share of an id's tokens at one expert, averaged over ids with at least 10 tokens, is"
            what = "send tokens of one id to the same expert"
            found.append(beyond_chance(table, frequent, what, data.names, title))
        part = table[table["measure"] == published]
        average = number_range(part["value"].min(), part["value"].max())
        text = f"The published average over all ids is {average}"
        if part["chance_high"].notna().any():
            chance = number_range(part["chance_low"].min(), part["chance_high"].max())
            text += f"; a router that ignores ids has {chance} on these data"
        found.append(f"{text}.")
        items = table[(table["item"] != "") & table["layer"].isin(above_chance(table, frequent))]
        items = items[items["value"] > items["limit"]] if len(items) else items
        if not items.empty:
            best = items.loc[(items["value"] - items["chance"]).astype(float).idxmax()]
            layer = data.names.layer(int(best["layer"]))
            found.append(
                f"The most specialised token id is {best['item']} in layer {layer}: {percent(best['value'])} "
                f"of its tokens go to one expert, chance {percent(best['chance'])}."
            )
        return found


class Kind:
    """One kind of ids, with its permutations, which are the same for all layers."""

    def __init__(self, name: str, ids: Ints, rows: Ints | slice, data: Choices, options: Options):
        self.name, self.rows = name, rows
        ids, cell, counts = np.unique(ids, return_inverse=True, return_counts=True)
        order = np.argsort(-counts, kind="stable")  # frequent ids come first
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order))
        self.ids, self.cell = ids[order], rank[cell]
        self.frequent = int((counts >= FREQUENT).sum())
        generator, documents = options.generator(), data.documents[rows]
        self.drawn = [self.cell[permuted_within(documents, generator)] for _ in range(options.permutations)]

    def measure(
        self, name: str, chosen: Chosen, data: Choices, place: int, options: Options
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows of a layer, and the rows of its most specialised ids."""
        number, layer = len(self.ids), data.layers[place]

        def shares(cell: NDArray[np.int32], kept: Any = slice(None)) -> NDArray[np.float64]:
            return largest_shares(cell[kept], chosen[kept], number, self.frequent, data.num_experts)

        def means(found: NDArray[np.float64]) -> dict[Any, float]:
            both = {name: found, f"{name}_frequent": found[: self.frequent]}
            known = {key: some[~np.isnan(some)] for key, some in both.items()}
            return {key: float(some.mean()) if some.size else np.nan for key, some in known.items()}

        whole, by_chance = shares(self.cell), [shares(cell) for cell in self.drawn]
        sizes = np.bincount(data.groups).tolist()
        kept = (data.groups[self.rows] != group for group in range(len(sizes)))
        rows = rows_of(
            layer, means(whole), [means(shares(self.cell, rest)) for rest in kept], sizes,
            [means(one) for one in by_chance], options.confidence, bounds=(0, 1),
        )  # fmt: skip
        if options.permutations:
            rows += [excess(row) for row in rows]
        items = []
        if options.permutations and self.frequent:
            chance, limit = np.array(by_chance)[:, : self.frequent], np.full(self.frequent, np.nan)
            if len(chance) >= FEWEST_DRAWS:  # in 95% of draws no id is above its limit
                beyond = Excess(chance)
                limit = beyond.share_at(float(np.quantile(beyond.largest(chance), 0.95, method="higher")))
            least = np.where(np.isnan(limit), chance.mean(axis=0), limit)
            best = np.argsort(least - whole[: self.frequent], kind="stable")[:TOP]
            for one in best.tolist():
                token, words = int(self.ids[one]), data.words
                text = str(token) if words is None or token >= len(words) else repr(words[token])
                key = f"{name}_share", text
                drawn = [{key: value} for value in chance[:, one].tolist()]
                (row,) = without_band(rows_of(layer, {key: whole[one]}, chance=drawn))
                items.append(row | {"limit": limit[one]})
        return rows, items


def largest_shares(
    cell: NDArray[np.int32], chosen: Chosen, number: int, frequent: int, num_experts: int
) -> NDArray[np.float64]:
    """Return the largest share of the tokens of each id that chose one expert `[number]`; NaN without tokens.

    The first `frequent` ids are counted in a table. For the others, pairs of id and expert are sorted.
    """
    counts, largest = np.bincount(cell, minlength=number), np.zeros(number)
    often = cell < frequent
    pairs = _pairs(cell[often], chosen[often], num_experts)
    table = np.bincount(pairs, minlength=frequent * num_experts).reshape(frequent, num_experts)
    largest[:frequent] = table.max(axis=1, initial=0)
    pairs = _pairs(cell[~often], chosen[~often], num_experts)
    if pairs.size:
        pairs.sort()
        starts = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]]))
        ids = pairs[starts] // num_experts
        first = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        largest[ids[first]] = np.maximum.reduceat(np.diff(starts, append=len(pairs)), first)
    return np.divide(largest, counts, out=np.full(number, np.nan), where=counts > 0)


def _pairs(cell: NDArray[np.int32], chosen: Chosen, num_experts: int) -> NDArray[Any]:
    """Return a number for the pair of id and expert of every choice that was not dropped."""
    small = (int(cell.max(initial=0)) + 1) * num_experts < 2**31  # int32 sorts twice as fast
    wide: NDArray[Any] = cell if small else cell.astype(np.int64)
    pairs = wide[:, np.newaxis] * num_experts + chosen
    taken = chosen >= 0
    return pairs.ravel() if taken.all() else pairs[taken]


def id_kinds(data: Choices) -> list[tuple[str, Ints, Any]]:
    """Return the kinds of ids: name, ids, and the rows that have them."""
    assert data.token_ids is not None
    found: list[tuple[str, Ints, Any]] = [("input", data.token_ids, slice(None))]
    follows = np.flatnonzero(np.diff(data.documents) == 0)
    if data.has_documents and follows.size:
        found.append(("next", data.token_ids[follows + 1], follows))
    if data.predicted_ids is not None:
        found.append(("predicted", data.predicted_ids, slice(None)))
    return found


def main_choice(data: Choices) -> str:
    """Return which choices are shown first: the published first choice, if it is known."""
    return "first_choice" if data.has("ranks") else "any_choice"


def widths(data: Choices, kind: str) -> dict[str, int]:
    """Return how many choices of a token are counted, by name."""
    width = data.top_k or 1
    if not data.has("ranks"):
        return {"any_choice": width}
    return {"first_choice": 1} | ({"any_choice": width} if width > 1 and kind == "input" else {})


def excess(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of the same measure minus its mean under permuted ids."""
    columns = ("value", "low", "high", "chance", "chance_low", "chance_high")
    numbers = {name: row[name] - row["chance"] for name in columns}
    return row | numbers | {"measure": f"{row['measure']}_excess"}
