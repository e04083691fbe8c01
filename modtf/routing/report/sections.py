"""Sections of the report beyond the measures: what routing follows, passages of text, the analyses."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from modtf.base.files import write_table
from modtf.metrics.distributions import Array
from modtf.pages import page
from modtf.pages.pictures import Picture
from modtf.routing.analyses import ANALYSES, Analysed, Analyses
from modtf.routing.analyses.choices import domains_of, ordered_choices
from modtf.routing.analyses.sentences import lower_first, number, number_range, percent
from modtf.routing.drawing import GREY, over_layers
from modtf.routing.measuring import Factor, measure_factors
from modtf.routing.measuring.damage import measured_layers
from modtf.routing.measuring.layers import Ints, choices_of
from modtf.routing.measuring.summarise import Progress
from modtf.routing.measuring.tokens import MOST_TOKENS, dealt, drawn_note, drawn_tokens
from modtf.routing.names import Names
from modtf.routing.reading import text_of
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
FOLDER = "analyses"  # of their tables and figures
READ = (
    "Open an analysis to see its figure, its definition and its numbers. Chance is the value of a router "
    "that knows nothing; each analysis says which one. 95% of such routers lie between the chance limits."
)
PASSAGES, TOKENS = 3, 100  # passages, and tokens of each
COLOURED = (
    "Each token has the colour and the number of its first expert, the one with the largest weight. Choose a "
    "layer. Below it stands how often neighbouring tokens of a document have the same first expert. Chance: "
    "the tokens of each document permuted."
)
#: marks of tokenizers -> what a reader sees
MARKS = str.maketrans({"\u0120": " ", "\u2581": " ", "\u010a": "\u21b5\n", "\r": "", "\n": "\u21b5\n"})


def followed_sections(routing: Routing, out: Path, seed: int, progress: Progress) -> list[page.Section]:
    """Sections on what routing follows, as far as the file knows; writes their tables and picture."""
    if not routing.has_tokens:
        return []
    sections: list[page.Section] = []
    some, documents = _drawn(routing, seed)
    note = [text] if (text := drawn_note(documents, some)) else []
    if len(routing.factors) > 1:
        rows = measure_factors(
            routing.factors, routing.activations, documents=routing.documents, permutations=5, seed=seed,
            progress=progress,
        )  # fmt: skip
        picture = draw_factors(rows, routing.names)
        write_table(out / "factors.csv", picture.table)
        image = shown(picture, out, "factors.csv")
        sections.append(page.Section("What routing follows", [FOLLOWS, *note], content=[image]))
    if "token" in routing.factors:
        table = top_tokens(routing, seed)
        write_table(out / "tokens.csv", table)
        best = page.Table(table.sort_values("bits", ascending=False, kind="stable"), "tokens.csv", SHOWN)
        sections.append(page.Section("Tokens of experts", [TOPS, *note], content=[best]))
    return sections


def _drawn(routing: Routing, seed: int) -> tuple[Ints, Ints]:
    """Return the tokens that `measure_factors` uses, and the document of every token of the file."""
    documents = np.arange(routing.num_tokens) if routing.documents is None else routing.documents
    return drawn_tokens(documents, MOST_TOKENS, seed), documents


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
    note = "Shares of the information about the token's experts."
    return Picture("factors", "What routing follows", note, figure, table)


def top_tokens(routing: Routing, seed: int) -> pd.DataFrame:
    """A row per layer and expert: layer, expert, choices (of tokens for it), bits, top_tokens."""
    tokens, layers = routing.factors["token"], routing.layers
    some, documents = _drawn(routing, seed)
    ids, cell = np.unique(tokens[some], return_inverse=True)
    words = [text_of(one, routing.words) for one in ids.tolist()]
    rows = []
    generator = np.random.default_rng(seed)
    for place in measured_layers(layers, some):
        layer = layers[place]
        (token, expert), number = choices_of(layer, some), layer.num_modules
        cells, others = cell[token], dealt(cell, documents[some], generator)[token]
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


def analysed_sections(analyses: Analyses, out: Path, names: Names) -> list[page.Section]:
    """Write NAME.csv and the figures of each analysis to `out`/analyses; return a section of folds."""
    folds = [_fold(name, found, out, names) for name, found in analyses.found.items()]
    missing = [page.Text(f"{ANALYSES[name].title}: {why}.") for name, why in analyses.missing.items()]
    if missing:
        folds.append(page.Fold("Analyses that need more than this file holds", missing))
    return [page.Section("Analyses", [READ], content=folds)] if folds else []


def _fold(name: str, found: Analysed, out: Path, names: Names) -> page.Fold:
    analysis, table = ANALYSES[name], found.table
    if names.layers is not None:
        table = table.assign(layer_name=table["layer"].map(names.layer_name))
    file = f"{FOLDER}/{name}.csv"
    write_table(out / file, table)
    images = [
        replace(shown(picture, out / FOLDER), files=f"{FOLDER}/{picture.name}.png; {file}")
        for picture in found.pictures
    ]
    more = [f"{analysis.title}: {lower_first(sentence)}" for sentence in found.sentences[1:]]
    texts = [analysis.about, *more, *found.notes]
    words = [f"Definition: {analysis.definition}", f"Chance: {analysis.null}", f"Source: {analysis.source}"]
    numbers = page.Table(in_short(table, names), file)
    parts = [*map(page.Text, texts), *images, *[page.Text(word, small=True) for word in words], numbers]
    return page.Fold(f"{analysis.title}. {found.sentences[0]}", parts)


def in_short(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Return a row for each measure: both ends of its range over layers, and the range of chance."""
    rows = []
    for measure, part in table[(table["item"] == "") & table["value"].notna()].groupby("measure", sort=False):
        part = part.astype({"value": float}).sort_values("value", kind="stable")
        row = {"measure": str(measure).replace("_", " ")}
        for column, place in (("smallest", 0), ("largest", -1)):
            one = part.iloc[place]
            ends = "" if np.isnan(one["low"]) else f" [{number(one['low'])}, {number(one['high'])}]"
            row[column] = f"{number(one['value'])}{ends}"
            row[f"{column} in layer"] = names.layer(int(one["layer"]))
        known = part.dropna(subset=["chance_low"])
        chance = number_range(known["chance_low"].min(), known["chance_high"].max())
        row["chance"] = chance if len(known) else ""
        rows.append(row)
    return pd.DataFrame(rows)


def passages_section(routing: Routing, chosen: int, seed: int) -> list[page.Section]:
    """Return the section with three passages, first in layer `chosen`, if the file has the tokens' texts."""
    if not routing.has_tokens or "token" not in routing.factors or routing.words is None:
        return []
    starts = passages_of(routing)
    shown = [np.arange(start, end) for start, end in starts]
    documents = np.zeros(routing.num_tokens, np.int64) if routing.documents is None else routing.documents
    some = drawn_tokens(documents, MOST_TOKENS, seed)
    ids, layers = routing.factors["token"], routing.layers
    names, experts, places = [], [], measured_layers(layers, some)
    for place in places:
        first = [ordered_choices(layers[place], tokens)[:, 0] for tokens in (*shown, some)]
        value, chance = neighbours(first[-1], documents[some])
        numbers = np.append(layers[place].module_numbers, -1)  # a token without an expert has -1
        experts.append([numbers[one].tolist() for one in first[:-1]])
        name = routing.names.layer(place)
        share = "no neighbours" if np.isnan(value) else f"{percent(value)} of neighbours, {percent(chance)}"
        names.append((name, f"Layer {name}: the same first expert for {share} by chance."))
    texts = [[text_of(one, routing.words).translate(MARKS) for one in ids[some].tolist()] for some in shown]
    of_tokens = [list(zip(*layers, strict=True)) for layers in zip(*experts, strict=True)]
    titles = [_title(routing, start) for start, _ in starts]
    passages = list(zip(titles, texts, of_tokens, strict=True))
    place = places.index(chosen) if chosen in places else 0
    return [page.Section("Text by expert", [COLOURED], content=[page.Passages(names, passages, place)])]


def neighbours(experts: Ints, documents: Ints) -> tuple[float, float]:
    """Return the share of neighbouring tokens with one expert, and its mean if documents are permuted.

    `experts` `[T]` are first choices, -1 for none. The tokens of each of the `documents` `[T]` are
    contiguous.
    """
    _, number = np.unique(documents, return_inverse=True)
    pair = np.diff(number) == 0
    taken = pair & (experts[1:] >= 0) & (experts[:-1] >= 0)
    if not taken.any():
        return np.nan, np.nan
    value = float((experts[1:] == experts[:-1])[taken].mean())
    counts = np.zeros((number.max() + 1, experts.max() + 1))
    np.add.at(counts, (number[experts >= 0], experts[experts >= 0]), 1)
    sizes, pairs = counts.sum(axis=1), np.bincount(number[1:][taken], minlength=len(counts))
    same: Array = (counts * (counts - 1)).sum(axis=1) / np.maximum(sizes * (sizes - 1), 1)
    return value, float((same * pairs).sum() / pairs.sum())


def passages_of(routing: Routing) -> list[tuple[int, int]]:
    """Return first token and end of the passages, which are documents of different labels, if there are."""
    number, documents, labels = routing.num_tokens, routing.documents, domains_of(routing)
    if documents is None:
        documents = np.arange(number) * PASSAGES // number
    starts = np.flatnonzero(np.diff(documents, prepend=-1))
    ends = np.append(starts[1:], number)
    is_long = ends - starts >= TOKENS // 2
    some = np.flatnonzero(is_long | ~is_long.any())
    kinds = np.zeros(len(some)) if labels is None else labels[starts[some]]
    _, first, counts = np.unique(kinds, return_index=True, return_counts=True)
    frequent = some[first[np.argsort(-counts, kind="stable")]]
    order = dict.fromkeys([*frequent.tolist(), *some.tolist(), *range(len(starts))])
    chosen = sorted(list(order)[:PASSAGES])
    return [(int(starts[one]), int(min(ends[one], starts[one] + TOKENS))) for one in chosen]


def _title(routing: Routing, start: int) -> str:
    labels, names = domains_of(routing), routing.document_names
    label = "" if labels is None else f" ({routing.names.label(int(labels[start]))})"
    if routing.documents is None:
        return f"From token {start}{label}"
    document = int(routing.documents[start])
    return f"Document {document if names is None else names[document]}{label}"
