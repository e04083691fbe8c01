"""Factors that routing follows: token, position and label side by side, and the tokens of each expert."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from modtf.base.files import write_table
from modtf.metrics.distributions import Array
from modtf.pages import page
from modtf.pages.pictures import Picture
from modtf.routing.drawing import GREY, over_layers
from modtf.routing.labelling import text_of
from modtf.routing.measuring import Factor, measure_factors
from modtf.routing.measuring.layers import Ints, choices_of
from modtf.routing.measuring.summarise import Progress
from modtf.routing.measuring.tokens import dealt, whole_documents
from modtf.routing.measuring.watch import measured_layers
from modtf.routing.names import Names
from modtf.routing.report.write import shown
from modtf.routing.routing import Routing

FOLLOWS = (
    "How much information the token, its position and its label carry about the token's experts, alone and "
    "beyond all others. 0 is none, 1 is all. The value under permutation is subtracted. Grey is chance. A "
    "line has a gap if too few tokens agree in all other factors."
)
TOPS = (
    "The experts whose tokens differ most from all tokens, and the tokens that stand out: their share at the "
    "expert, and in brackets among all tokens. bits: how far the tokens differ, beyond tokens of other "
    "documents."
)
SHOWN = 12  # experts on the page; the file has all
TOP, LEAST = 6, 5  # tokens that are named of an expert; times that these occur


def followed_sections(routing: Routing, out: Path, seed: int, progress: Progress) -> list[page.Section]:
    """Sections on what routing follows, as far as the file knows; writes their tables and picture."""
    sections: list[page.Section] = []
    if not routing.has_tokens:
        return sections
    if len(routing.factors) > 1:
        rows = measure_factors(
            routing.factors, routing.activations, documents=routing.documents, permutations=5, seed=seed,
            progress=progress,
        )  # fmt: skip
        picture = draw_factors(rows, routing.names)
        write_table(out / "factors.csv", picture.table)
        image = shown(picture, out, "factors.csv")
        sections.append(page.Section("What routing follows", [FOLLOWS], content=[image]))
    if "token" in routing.factors:
        table = top_tokens(routing, seed)
        write_table(out / "tokens.csv", table)
        best = table.sort_values("bits", ascending=False, kind="stable")
        sections.append(
            page.Section("Tokens of experts", [TOPS], content=[page.Table(best, "tokens.csv", SHOWN)])
        )
    return sections


def draw_factors(rows: Sequence[Factor], names: Names) -> Picture:
    """Draw the information that routing carries about each factor, alone and beyond the others."""
    table = pd.DataFrame([vars(row) for row in rows])
    layers = table["layer"].drop_duplicates().tolist()
    figure, both = over_layers(layers, names, ("Alone", "Beyond all others"), sharey=True)
    for axes, what in zip(both, ("marginal", "beyond"), strict=True):
        for factor, part in table.groupby("factor", sort=False):
            axes.plot(range(len(layers)), part[what], "o-", ms=3, label=factor)
        chance = table.groupby("layer", sort=False)[f"{what}_chance"].max()
        axes.fill_between(range(len(layers)), -chance, chance, color=GREY, alpha=0.4, lw=0)
    both[0].legend(frameon=False, fontsize=8)
    if names.layers is not None:
        table.insert(1, "layer_name", table["layer"].map(names.layer_name))
    return Picture(
        "factors",
        "What routing follows",
        "Shares of the information about the token's experts.",
        figure,
        table,
    )


def top_tokens(routing: Routing, seed: int) -> pd.DataFrame:
    """A row per layer and expert: layer, expert, choices (of tokens for it), bits, top_tokens."""
    tokens, layers = routing.factors["token"], routing.layers
    some, documents = whole_documents(routing.documents, len(tokens), seed)
    ids, cell = np.unique(tokens[some], return_inverse=True)
    words = [text_of(one, routing.words) for one in ids.tolist()]
    rows = []
    generator = np.random.default_rng(seed)
    for place in measured_layers(layers, some):
        layer = layers[place]
        (token, expert), number = choices_of(layer, some), layer.num_modules
        cells, others = cell[token], dealt(cell, documents, generator)[token]
        everywhere = np.bincount(cells, minlength=len(ids)) / len(cells)
        total = np.bincount(expert, minlength=number)
        both = [_excess(expert, of, total, everywhere) for of in (others, cells)]
        chance, bits = (np.bincount(of, excess, number) / np.maximum(total, 1) for of, *_, excess in both)
        of, which, counts, excess = both[1]
        for one in np.flatnonzero(total):
            part = np.flatnonzero((of == one) & (counts >= LEAST) & (excess > 0))
            best = part[np.argsort(-excess[part], kind="stable")[:TOP]]
            shares = zip(which[best], counts[best] / total[one], strict=True)
            named = ", ".join(f"{words[i]!r} {share:.1%} ({everywhere[i]:.1%})" for i, share in shares)
            which_expert = routing.names.layer(place), int(layer.module_numbers[one])
            rows.append((*which_expert, int(total[one]), bits[one] - chance[one], named))
    return pd.DataFrame(rows, columns=["layer", "expert", "choices", "bits", "top_tokens"])


def _excess(experts: Ints, cells: Ints, total: Ints, everywhere: Array) -> tuple[Ints, Ints, Ints, Array]:
    """Return every pair of expert and token, its count n, and n log2 of its share over that among all."""
    key, counts = np.unique(experts * len(everywhere) + cells, return_counts=True)
    of, which = np.divmod(key, len(everywhere))
    return of, which, counts, counts * np.log2(counts / total[of] / everywhere[which])
