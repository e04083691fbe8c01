"""Sums over tokens, chunk by chunk. The memory does not grow with the number of tokens."""

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy

import numpy as np
from numpy.typing import ArrayLike

from modtf.base.checks import check_callable, check_integer, check_number
from modtf.metrics.measure import GROUPS
from modtf.metrics.registry import check_groups
from modtf.routing.measuring.checks import Ints, Numbers, as_counts, check_labels_fit, layer_sizes, mismatch
from modtf.routing.measuring.choices import Layer, layers_of
from modtf.routing.measuring.describe import assumed, how_measured
from modtf.routing.measuring.documents import Documents
from modtf.routing.measuring.estimates import count_within, deal, group_documents
from modtf.routing.measuring.experts import Experts
from modtf.routing.measuring.gates import sum_rows
from modtf.routing.measuring.layer import ALL_TOKENS, LayerMeasures
from modtf.routing.measuring.summarise import (
    NUM_PERMUTATIONS,
    Options,
    Progress,
    check_permutations,
    measure_layer,
)
from modtf.routing.measuring.units import Last, Pieces, Units, check_given
from modtf.routing.measuring.watch import Watch, left_out

NUM_GROUPS = 32
MOST_GROUPS = 2**16
SLICE = 2**14  # tokens processed at a time: with 64 modules their gates take 8 MiB
MOST_UNITS = 2**12  # limit on the documents, and on the runs, that are kept: sums of more are normal
KEPT = 2**24  # limit on the numbers kept for all layers, modules and documents (or runs): 128 MiB per view


class ActivationAccumulator:
    """An accumulator of a router's activations, chunk by chunk; `result()` returns the measures.

    Args:
        from_logits, top_k, num_groups: as for `measure_activations`; memory grows with the number of groups.

    Raises:
        ValueError: if top_k is not an integer of at least 1, or num_groups of at least 2.

    Example:
        >>> seen = ActivationAccumulator()
        >>> for seed in range(3):
        ...     generator = np.random.default_rng(seed)
        ...     labels = generator.integers(4, size=1000)
        ...     seen.update(np.eye(4)[labels], labels, documents=1000 * seed + np.arange(1000))
        >>> (layer,) = seen.result(permutations=20)
        >>> layer.mass.values["alignment"].value
        0.0
    """

    def __init__(self, *, from_logits: bool = False, top_k: int | None = None, num_groups: int = NUM_GROUPS):
        self.from_logits = from_logits
        self.top_k = None if top_k is None else check_integer("top_k", top_k, 1)
        self.num_groups = check_integer("num_groups", num_groups, 2, MOST_GROUPS)
        self.are_chosen = self.are_counts = False  # whether the chunks are experts or counts, not gates
        self.groups: list[np.ndarray] = []  # sums of activations, one [2, groups, R, M] per layer
        self.documents: list[Documents] = []
        self.module_numbers: list[Ints] = []  # of each layer [M]
        self.counts = np.zeros(0)  # tokens of each label [R]; of choices that are counted, k make one token
        self.watches: list[Watch] = []  # one per layer
        self.has_labels: bool | None = None
        self.has_documents: bool | None = None
        self.num_documents, self.pieces = 0, Pieces()
        self.label_names: Sequence[str] | None = None  # of labels that come as numbers, for readers
        self._labels, self._ids, self._spans = Numbers("labels"), Numbers("documents"), Numbers("spans")
        self._has_spans: bool | None = None
        self._last: Last | None = None  # document, label and span of the last token

    def update(
        self,
        activations: ArrayLike | Experts,
        labels: ArrayLike | None = None,
        documents: ArrayLike | None = None,
        spans: ArrayLike | None = None,
        progress: Progress = iter,
    ) -> None:
        """Add a chunk of tokens, of any length.

        Args:
            activations: gates or logits `[tokens, M]` or `[layers, tokens, M]`; or a list of `[tokens, M]`,
                one per layer, if M differs; or `Experts`.
            labels, documents, spans: integers from 0, or names, `[tokens]`; see `measure_activations`. Give
                each of them for all chunks or for none.
            progress: wraps slices of the chunk while they are read, for example `tqdm`.

        Raises:
            ValueError: if an argument is invalid, or its size differs from the chunks before. Part of the
                chunk may have been added by then: start with a new accumulator.
        """
        layers = self._layers(activations)
        num_tokens = len(layers[0])
        ids = None if documents is None else self._ids.of(documents, num_tokens)
        if labels is None:
            classes = np.zeros(num_tokens, np.int64)
        else:
            hint = mismatch(labels, documents, num_tokens, [layer.num_modules for layer in layers])
            classes = self._labels.of(labels, num_tokens, hint)
        if num_tokens == 0:
            return
        self._begin(labels is not None, documents is not None, spans is not None)
        self._make_room([layer.module_numbers for layer in layers], int(classes.max()) + 1)
        numbered = None if spans is None else self._spans.of(spans, num_tokens)
        order = slice(None) if ids is None else self.pieces.order(ids, self._last)
        before = int(self.counts.sum())  # errors count tokens from the first of all chunks
        for start in progress(range(0, num_tokens, SLICE)):
            part = slice(start, start + SLICE)
            some = part if isinstance(order, slice) else order[part]
            of_tokens = (None if one is None else one[some] for one in (ids, numbered))
            self._add(layers, some, before + start, classes[some], *of_tokens)

    def update_counts(
        self, counts: ArrayLike, labels: ArrayLike | None = None, numbers: Ints | None = None
    ) -> None:
        """Add documents for which only sums over tokens are known; see `measure_activations`.

        Args:
            counts: `[documents, layers, experts]`, or `[documents, experts]` for one layer.
            labels: integers from 0, or names, `[documents]`.
            numbers: the numbers of the experts; None: 0 to E - 1.

        Raises:
            ValueError: as for `update`.
        """
        sums = as_counts(counts, self.top_k)
        number, num_layers, num_modules = sums.shape
        hint = "Counts have one label for each document."
        classes = np.zeros(number, np.int64) if labels is None else self._labels.of(labels, number, hint)
        self._begin(labels is not None, True, False)
        self._make_room(
            [np.arange(num_modules) if numbers is None else numbers] * num_layers, int(classes.max()) + 1
        )
        group = group_documents(self.num_documents + np.arange(number), self.num_groups)
        cell, size = group * len(self.counts) + classes, self.num_groups * len(self.counts)
        tokens = sums.sum(axis=2).max(axis=1) / (self.top_k or 1)
        self.counts += np.bincount(classes, tokens, len(self.counts))
        self.num_documents, self.are_counts = self.num_documents + number, True
        for place, layer in enumerate(self.documents):
            self.watches[place].add_counts(sums[:, place], math.ceil(tokens.sum()))
            some = sums[:, place] / (self.top_k or 1)
            self.groups[place] += sum_rows(some, cell, size).reshape(self.groups[place].shape[1:])
            took = some.any(axis=1)
            layer.sent += np.rint(sums[:, place].sum(axis=0)).astype(np.int64)
            layer.add_whole(np.stack([some[took]] * 2), classes[took])

    def _layers(self, activations: ArrayLike | Experts) -> Sequence[Layer]:
        """Return the layers of a chunk, which can be read in parts."""
        if isinstance(activations, Experts):
            known = self.top_k if self.groups else self.top_k or activations.top_k
            if self.from_logits or known != activations.top_k:
                raise ValueError(
                    f"This chunk holds {activations.top_k} experts for each token, to which from_logits and "
                    "top_k do not apply. Leave them out, and give all chunks in the same form."
                )
            self.top_k, self.are_chosen = known, True
        return layers_of(activations, self.from_logits, self.top_k)

    def _begin(self, has_labels: bool, has_documents: bool, has_spans: bool) -> None:
        """Raise `ValueError` unless all chunks come with the same arguments."""
        now = has_labels, has_documents, has_spans
        check_given((self.has_labels, self.has_documents, self._has_spans), now)
        self.has_labels, self.has_documents, self._has_spans = now

    def _make_room(self, numbers: list[Ints], num_labels: int) -> None:
        """Allocate sums for the first chunk; add rows for labels that were not seen before."""
        sizes = list(map(len, numbers))
        if not self.groups:
            self.module_numbers, self.watches = numbers, [Watch(place) for place in range(len(sizes))]
            self.groups = [np.zeros((2, self.num_groups, 0, size)) for size in sizes]
            self.documents = [Documents(size, min(KEPT // sum(sizes), MOST_UNITS)) for size in sizes]
        known = list(map(len, self.module_numbers))
        if sizes != known or not all(map(np.array_equal, numbers, self.module_numbers)):
            raise ValueError(
                f"The chunk has {layer_sizes(sizes)}; expected {layer_sizes(known)} and the same shared "
                "experts, as in the chunks before."
            )
        missing = num_labels - len(self.counts)
        if missing <= 0:
            return
        check_labels_fit(num_labels, sizes, self.num_groups)
        self.counts = np.pad(self.counts, (0, missing))
        self.groups = [np.pad(sums, ((0, 0), (0, 0), (0, missing), (0, 0))) for sums in self.groups]
        for layer in self.documents:
            layer.make_room(num_labels)

    def _add(
        self, layers: Sequence[Layer], some: slice | Ints, first_token: int, labels: Ints,
        documents: Ints | None, spans: Ints | None,
    ) -> None:  # fmt: skip
        """Add tokens to the sums of every layer; the documents are contiguous."""
        if documents is None:
            group = deal(count_within(labels, self.counts.astype(np.int64)), self.num_groups)
            documents = labels
        else:
            group = group_documents(documents, self.num_groups)
        cell = group * len(self.counts) + labels
        self.counts += np.bincount(labels, minlength=len(self.counts))
        units = Units(documents, labels, spans, self._last)
        self.num_documents += int(units.document[-1]) + (not units.same_document)
        self._last = units.last
        for layer, watch, sums, kept in zip(layers, self.watches, self.groups, self.documents, strict=True):
            watch.add(layer, some, first_token)
            both, shape = layer.read(some, first_token), sums.shape[1:]
            for by, tokens in enumerate(both):
                sums[by] += tokens.sums(cell, shape[0] * shape[1]).reshape(shape)
            kept.add(both, units)

    def result(
        self,
        *,
        label_probs: ArrayLike | None = None,
        groups: Iterable[str] = GROUPS,
        permutations: int = NUM_PERMUTATIONS,
        confidence: float = 0.95,
        seed: int = 0,
        progress: Progress = iter,
    ) -> list[LayerMeasures]:
        """Return the measures of the tokens so far, one entry per layer; arguments as `measure_activations`.

        Raises:
            ValueError: if no token was added, or an argument is invalid.
        """
        if not self.num_documents:
            raise ValueError("There are no tokens; expected at least one.")
        check_callable("progress", progress)
        options = Options(
            label_probs=label_probs,
            groups=check_groups(groups),
            permutations=check_permutations("permutations", permutations, self.groups[0].shape[2:]),
            confidence=check_number("confidence", confidence, 0.5, 0.9999),
            seed=check_integer("seed", seed, 0),
            names=tuple(self._labels.names) or (None if self.has_labels else (ALL_TOKENS,)),
            how=how_measured(self, label_probs, confidence, tuple(self._labels.names) or self.label_names),
            warnings=tuple(assumed(self, self._labels, self._ids)),
        )
        documents = deepcopy(self.documents)  # the accumulator stays usable for more tokens
        for layer in documents:
            layer.close()
        out = left_out(self.watches)
        rest = [i for i in range(len(documents)) if i not in out]
        return [
            measure_layer(i, self.module_numbers[i], self.groups[i], documents[i], self.counts, options)
            for i in progress(rest)
        ]
