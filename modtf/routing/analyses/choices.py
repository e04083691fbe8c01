"""The choices of tokens in memory, as all analyses read them from a routing."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.measuring.activations import NUM_GROUPS, Counted
from modtf.routing.measuring.damage import ONE_ASSUMED, Watch, assumes_one, without_placeholders
from modtf.routing.measuring.layers import NONE, ExpertLayer, Ints, Layer
from modtf.routing.measuring.summarise import Progress
from modtf.routing.measuring.tokens import SLICE, assumed_documents, drawn_note, drawn_tokens
from modtf.routing.names import Names
from modtf.routing.reading import Classes, frequent_tokens, text_of
from modtf.routing.routing import Routing

MOST_CHOICES = 2**26  # limit on the choices in memory: 128 MiB for fewer than 2^15 experts
UNKNOWN_TOP_K = (
    "The number k of experts per token is unknown, so each choice counts as a token. If k is above 1, shares "
    "of tokens are too small and chance bands too wide. Give --top_k=K (top_k=K)."
)
SINGLE = 0.1  # share of tokens that are the only one of their document, from which on this is noted


@dataclass(frozen=True)
class Choices:
    """The experts that tokens chose; or, for a file of counts, how often documents chose each expert.

    A row is a token, or a document of a file of counts. Tokens are sorted by document and keep their order
    within it.

    Attributes:
        layers: the numbers of the layers in the file. Placeholders are left out. A place is an index of it.
        num_experts: E, without shared experts.
        expert_numbers: `[E]`, the numbers of the experts in the file, from which tables name them. Without
            shared experts these are 0 to E - 1.
        top_k: k, the number of experts per token; None if a file of counts does not say it.
        experts: `[places, tokens, k]`, indices of `expert_numbers`. Dropped choices are -1 and come last.
            Without tokens for counts.
        sums: `[documents, places, E]` of a file of counts, otherwise None.
        documents: the document of every row, from 0, sorted.
        has_documents: whether the file says what the documents are. If not, runs of one label stand for them,
            or stretches of consecutive tokens.
        labels: the label (domain) of every row, as in the file, or None.
        spans: the span of every token, such as a chat turn, which keeps one label when labels are permuted.
        token_ids, predicted_ids: the id of every token, and of the token that was predicted, or None.
        ranked: whether the choices of a token are sorted by weight, the largest first.
        assumes_one: whether k = 1 is assumed, because gates of several experts came without `top_k`.
        names: the names of labels and layers.
        words: the texts of tokens, indexed by token id, or None.
        notes: what a reader has to know: the sample, the assumed documents.
        against: the same tokens as another checkpoint routed them, or None.
    """

    layers: tuple[int, ...]
    num_experts: int
    expert_numbers: Ints
    top_k: int | None
    experts: NDArray[Any]
    sums: NDArray[Any] | None
    documents: Ints
    has_documents: bool
    labels: Ints | None = None
    spans: Ints | None = None
    token_ids: Ints | None = None
    predicted_ids: Ints | None = None
    ranked: bool = False
    assumes_one: bool = False
    names: Names = field(default_factory=Names)
    words: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    against: "Choices | None" = None

    @property
    def num_documents(self) -> int:
        """The number of documents, or of what stands for them."""
        return int(self.documents[-1]) + 1

    def has(self, need: str) -> bool:
        """Return whether a fact of `modtf.routing.analyses.registry.NEEDS` is known."""
        several = self.labels is not None and bool((self.labels != self.labels[0]).any())
        known = {
            "tokens": self.sums is None,
            "documents": self.has_documents and self.num_documents > 1,
            "labels": several,
            "token_ids": self.token_ids is not None,
            "predicted_ids": self.predicted_ids is not None,
            "several_tokens": self.num_documents < len(self.documents),
            "several_choices": (self.top_k or 1) > 1,
            "ranks": self.ranked or self.top_k == 1,
            "against": self.against is not None,
        }
        return known[need]

    def counts(self, place: int, cell: Ints | None = None, num_cells: int = 1) -> Array:
        """Return how often the rows of each cell chose each expert `[num_cells, E]`.

        Args:
            place: the index of the layer.
            cell: the cell of every row; None: all rows are in one cell.
        """
        number = self.num_experts
        if self.sums is not None:
            found = np.zeros((num_cells, number))
            np.add.at(found, np.zeros(len(self.sums), int) if cell is None else cell, self.sums[:, place])
            return found
        chosen = self.experts[place].astype(np.int64)
        key = chosen if cell is None else cell[:, np.newaxis] * number + chosen
        taken = chosen >= 0
        key = key.ravel() if taken.all() else key[taken]
        return np.bincount(key, minlength=num_cells * number).reshape(num_cells, number).astype(np.float64)

    def tokens_by_choices(self, place: int, cell: Ints | None = None, num_cells: int = 1) -> Ints:
        """Return how many tokens of each cell have each number of choices `[num_cells, k + 1]`, from 0.

        In a file of counts each token has k choices.
        """
        width = (self.top_k or 1) + 1
        if self.sums is not None:
            choices = self.counts(place, cell, num_cells).sum(axis=1)
            found = np.zeros((num_cells, width), np.int64)
            found[:, -1] = np.rint(choices / (width - 1))
            return found
        key = (self.experts[place] >= 0).sum(axis=1)
        key = key if cell is None else cell * width + key
        return np.bincount(key, minlength=num_cells * width).reshape(num_cells, width)

    @cached_property
    def document_labels(self) -> Ints | None:
        """The label of every document `[documents]`; None without labels, or if a document has several."""
        if self.labels is None:
            return None
        first = self.labels[np.searchsorted(self.documents, np.arange(self.num_documents))]
        return first if (first[self.documents] == self.labels).all() else None

    @cached_property
    def groups(self) -> Ints:
        """The group of every row, 32 or fewer groups of whole documents, for intervals over documents.

        Documents of one label are dealt to the groups in turn, so each group has each label.
        """
        order = np.random.default_rng(0).permutation(self.num_documents)
        if self.document_labels is not None:
            order = order[np.argsort(self.document_labels[order], kind="stable")]
        group = np.empty(self.num_documents, np.int64)
        group[order] = np.arange(self.num_documents) % NUM_GROUPS
        return group[self.documents]

    def sample(self, most: int, seed: int) -> "Choices":
        """Return the choices of randomly drawn whole documents with at most `most` tokens, and a note.

        If these have fewer than half as many tokens, because the next document is long, its first tokens are
        added.
        """
        number = len(self.documents)
        if number <= most:
            return self
        sizes = np.bincount(self.documents)
        order = np.random.default_rng(seed).permutation(len(sizes))
        fits = int((sizes[order].cumsum() <= most).sum())
        rows, words = np.flatnonzero(np.isin(self.documents, order[:fits])), "whole documents"
        if 2 * len(rows) < most:
            start = int(sizes[: order[fits]].sum())
            rows = np.sort(np.append(rows, np.arange(start, start + most - len(rows))))
            words = f"{fits} whole documents and the start of one," if fits else "the start of one document"
        return self._take(rows, f"{len(rows)} of {number} tokens are used, from {words} drawn at random.")

    def _take(self, rows: Ints, note: str) -> "Choices":
        names = ("labels", "spans", "token_ids", "predicted_ids")
        some: Any = {name: values[rows] for name in names if (values := getattr(self, name)) is not None}
        return replace(
            self,
            experts=self.experts[:, rows],
            documents=np.unique(self.documents[rows], return_inverse=True)[1],
            notes=(*self.notes, note),
            against=None if self.against is None else self.against._take(rows, note),
            **some,
        )


def read_choices(
    routing: Routing,
    *,
    seed: int = 0,
    against: Routing | None = None,
    progress: Progress = iter,
) -> Choices:
    """Return the choices of a routing.

    If there are more than 2^26 choices, documents are drawn at random until these would be exceeded.
    Long ones give a stretch of their tokens.

    Args:
        routing: from `modtf.read_routing`.
        seed: the seed of the drawn documents.
        against: the same tokens as another checkpoint routed them.
        progress: wraps the layers while they are read.

    Raises:
        ValueError: if activations are invalid, or `against` has other tokens.
    """
    import pandas as pd  # slow to import

    if against is not None:
        check_same_tokens(against, routing, "against", "routing")
    if isinstance(routing.activations, Counted):
        return _choices_of_counts(routing, routing.activations)
    domains = domains_of(routing)
    notes: list[str] = []
    if routing.documents is None:
        documents, note = assumed_documents(domains, routing.num_tokens)
        notes.append(note)
    else:
        documents = pd.factorize(routing.documents)[0]  # numbered by first occurrence
    order = np.argsort(documents, kind="stable")
    width = len(routing.layers) * (routing.layers[0].top_k or 1)
    if len(documents) * width > MOST_CHOICES:
        order = order[drawn_tokens(documents[order], MOST_CHOICES // width, seed)]
        notes.append(drawn_note(documents, order))
    single = np.bincount(documents) == 1
    if SINGLE * len(documents) <= single.sum() < len(documents):
        notes.append(
            f"{single.sum()} of {len(single)} documents have one token. They stay as they are when tokens "
            "are permuted within documents, so effects look smaller than they are."
        )
    chosen = _chosen(routing, order, progress)
    if chosen["assumes_one"]:
        notes.append(ONE_ASSUMED)
    arrays: dict[str, Any] = {
        "labels": domains, "spans": routing.spans, "token_ids": routing.factors.get("token"),
        "predicted_ids": routing.predicted,
    }  # fmt: skip
    of_tokens = {name: values[order] for name, values in arrays.items() if values is not None}
    found = Choices(
        **chosen,
        sums=None,
        documents=np.unique(documents[order], return_inverse=True)[1],
        has_documents=routing.documents is not None,
        names=routing.names if "labels" in of_tokens else Names(None, routing.names.layers),
        words=routing.words,
        notes=tuple(notes),
        **of_tokens,
    )
    if against is None:
        return found
    names = Names(found.names.labels, against.names.layers)
    chosen = _chosen(against, order, iter)
    return replace(found, against=replace(found, names=names, **chosen))


def _chosen(routing: Routing, order: Ints, progress: Progress) -> dict[str, Any]:
    """Return the attributes of `Choices` that say what the router chose, for the tokens in `order`."""
    if len(sizes := {layer.num_modules for layer in routing.layers}) > 1:
        raise ValueError(
            f"Layers have {' and '.join(map(str, sorted(sizes)))} experts; analyses need equal numbers. "
            "Analyse the layers of each number alone."
        )
    number, k = len(routing.expert_numbers), routing.layers[0].top_k
    experts = np.empty((len(routing.layers), len(order), k or 1), np.int16 if number < 2**15 else np.int32)
    watches = [Watch(place) for place in range(len(experts))]
    for watch, layer, chosen in zip(watches, progress(routing.layers), experts, strict=True):
        for start in range(0, len(order), SLICE):
            some = order[start : start + SLICE]
            watch.add(layer, some, start)
            chosen[start : start + SLICE] = ordered_choices(layer, some, start)
    kept, first = without_placeholders(watches), routing.layers[0]
    return {
        "layers": tuple(kept),
        "num_experts": number,
        "expert_numbers": routing.expert_numbers,
        "top_k": experts.shape[2],
        "assumes_one": k is None and assumes_one(watches),
        "experts": experts if len(kept) == len(experts) else experts[kept],
        "ranked": not isinstance(first, ExpertLayer) or first.weights is not None,
    }


def check_same_tokens(routing: Routing, other: Routing, name: str, other_name: str) -> None:
    """Raise `ValueError` unless both routed the same tokens of the same documents, as far as both know."""
    if routing.num_tokens != other.num_tokens or not routing.has_tokens or not other.has_tokens:
        raise ValueError(
            f"{name} has {routing.num_tokens} tokens, but {other_name} has {other.num_tokens}; expected the "
            "same tokens in the same order, and no counts."
        )
    for what, differ in _differences(routing, other):
        if differ.any():
            raise ValueError(
                f"{name} and {other_name} have different {what} from token {np.argmax(differ)} on; expected "
                "the same tokens in the same order. Run both models on the same texts."
            )


def _differences(routing: Routing, other: Routing) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the name of each fact of tokens that both know, and which tokens differ in it `[tokens]`."""
    both = routing, other
    ids, other_ids = (one.factors.get("token") for one in both)
    if ids is not None and other_ids is not None:
        yield "tokens", ids != other_ids
        if routing.words is not None and other.words is not None:
            used, place = np.unique(ids, return_inverse=True)
            texts, others = ([text_of(one, some.words) for one in used.tolist()] for some in both)
            yield "texts of tokens", (np.array(texts) != np.array(others))[place]
    documents, other_documents = (_named_documents(one) for one in both)
    if documents is not None and other_documents is not None:
        yield "documents", documents != other_documents


def _named_documents(routing: Routing) -> NDArray[Any] | None:
    """Return the name of every token's document, or its number if documents have no names."""
    if routing.documents is None or routing.document_names is None:
        return routing.documents
    return np.array(routing.document_names)[routing.documents]


def _choices_of_counts(routing: Routing, counted: Counted) -> Choices:
    layers = np.flatnonzero(counted.counts.any(axis=(0, 2)))  # dense layers have zeros
    sums, known = counted.counts[:, layers], counted.top_k
    return Choices(
        layers=tuple(layers.tolist()),
        num_experts=sums.shape[2],
        expert_numbers=routing.expert_numbers,
        top_k=known,
        experts=np.zeros((len(layers), 0, known or 1), np.int16),
        sums=sums,
        documents=np.arange(len(sums)),
        has_documents=True,
        labels=routing.labels,
        names=routing.names,
        notes=(UNKNOWN_TOP_K,) if known is None else (),
    )


def domains_of(routing: Routing) -> Ints | None:
    """Return labels `[tokens]`; None if there are none, or if token ids stand in for them."""
    if routing.labels is None or "token" not in routing.factors:
        return routing.labels
    ids = frequent_tokens(Classes(routing.factors["token"]), None).numbers
    assert ids is not None
    return None if np.array_equal(ids, routing.labels) else routing.labels


def ordered_choices(layer: Layer, some: Ints, first_token: int = 0) -> Ints:
    """Return the experts of tokens `[N, k]`, the largest weight first; dropped choices are -1 and last."""
    mass, hard = layer.read(some, first_token)
    assert hard.modules is not None  # hard assignment always has them
    k, sent = layer.top_k or 1, hard.weights > 0
    experts = np.where(sent, hard.modules, NONE)
    if experts.shape[1] == 1:
        return experts
    weights = mass.weights if mass.modules is not None else hard.weights
    order = np.argsort(np.where(sent, -weights, 1.0), axis=1, kind="stable")
    return np.take_along_axis(experts, order, axis=1)[:, :k]  # shared experts count as dropped, and are last
