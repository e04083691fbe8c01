"""Passages of text, each token in the colour of its first expert, with a choice of layer."""

import numpy as np

from modtf.metrics.distributions import Array
from modtf.pages import page
from modtf.routing.analyses.reading import domains_of, ordered_choices
from modtf.routing.analyses.sentences import percent
from modtf.routing.labelling import text_of
from modtf.routing.measuring.layers import Ints
from modtf.routing.measuring.tokens import whole_documents
from modtf.routing.measuring.watch import measured_layers
from modtf.routing.routing import Routing

PASSAGES, TOKENS = 3, 100  # passages, and tokens of each
COLOURED = (
    "Each token has the colour and the number of its first expert, the one with the largest weight. Choose a "
    "layer. Below it stands how often neighbouring tokens of a document have the same first expert. Chance: "
    "the tokens of each document permuted."
)
#: marks of tokenizers -> what a reader sees
MARKS = {"\u0120": " ", "\u2581": " ", "\u010a": "\n", "\r": "", "\n": "\u21b5\n"}


def passages_section(routing: Routing, chosen: int, seed: int) -> list[page.Section]:
    """Return the section with three passages, first in layer `chosen`, if the file has the tokens' texts."""
    if not routing.has_tokens or "token" not in routing.factors or routing.words is None:
        return []
    starts = passages_of(routing)
    shown = [np.arange(start, end) for start, end in starts]
    some, documents = whole_documents(routing.documents, routing.num_tokens, seed)
    if routing.documents is None:
        documents = np.zeros_like(documents)  # each token would be its own document
    layers = routing.layers
    names, experts, places = [], [], measured_layers(layers, some)
    for place in places:
        first = [ordered_choices(layers[place], tokens)[:, 0] for tokens in (*shown, some)]
        value, chance = neighbours(first[-1], documents)
        numbers = np.append(layers[place].module_numbers, -1)  # a token without an expert has -1
        experts.append([numbers[one].tolist() for one in first[:-1]])
        name = routing.names.layer(place)
        share = "no neighbours" if np.isnan(value) else f"{percent(value)} of neighbours, {percent(chance)}"
        names.append((name, f"Layer {name}: the same first expert for {share} by chance."))
    texts = [[_readable(text_of(one, routing.words)) for one in _ids(routing, some)] for some in shown]
    of_tokens = [list(zip(*layers, strict=True)) for layers in zip(*experts, strict=True)]
    titles = [_title(routing, start) for start, _ in starts]
    passages = list(zip(titles, texts, of_tokens, strict=True))
    place = places.index(chosen) if chosen in places else 0
    return [page.Section("Text by expert", [COLOURED], content=[page.Passages(names, passages, place)])]


def neighbours(experts: Ints, documents: Ints) -> tuple[float, float]:
    """Return the share of neighbouring tokens with one expert, and its mean if documents are permuted.

    Args:
        experts: the first expert of tokens `[T]`; -1 for none.
        documents: the document of tokens `[T]`, the tokens of each one after the other.
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


def _ids(routing: Routing, some: Ints) -> list[int]:
    return routing.factors["token"][some].tolist()


def _readable(token: str) -> str:
    for mark, text in MARKS.items():
        token = token.replace(mark, text)
    return token


def _title(routing: Routing, start: int) -> str:
    labels, names = domains_of(routing), routing.document_names
    label = "" if labels is None else f" ({routing.names.label(int(labels[start]))})"
    if routing.documents is None:
        return f"From token {start}{label}"
    document = int(routing.documents[start])
    return f"Document {document if names is None else names[document]}{label}"
