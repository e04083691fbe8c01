"""The choices of tokens in memory, as all analyses read them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.measuring.activations import NUM_GROUPS
from modtf.routing.measuring.layers import Ints
from modtf.routing.names import Names


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
            None for counts.
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
    experts: NDArray[Any] | None
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

    @property
    def num_tokens(self) -> int:
        """The number of tokens; of a file of counts, computed from the number of choices."""
        if self.sums is None:
            return len(self.documents)
        return int(self.sums.sum(axis=2).max(axis=1).sum()) // (self.top_k or 1)

    def has(self, need: str) -> bool:
        """Return whether a fact of `modtf.routing.analyses.registry.NEEDS` is known."""
        several = self.labels is not None and bool((self.labels != self.labels[0]).any())
        known = {
            "tokens": self.experts is not None,
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

    def label_name(self, label: int) -> str:
        """Return the name of a label."""
        return self.names.label(label)

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
        assert self.experts is not None
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
        if self.experts is None:
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
