"""Measure a mixture of experts from anywhere: `measure_activations`."""

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.checks import check_callable, check_integer
from modtf.metrics.activation_matrix import check_activation_matrix
from modtf.metrics.registry import GROUPS
from modtf.routing.measuring.layers import (
    Experts,
    GateLayer,
    Gates,
    Ints,
    Layer,
    as_layers,
    as_numbers,
    check_shared,
    dimensions,
    from_bfloat16,
    layers_of,
    without_shared,
)
from modtf.routing.measuring.results import LayerMeasures
from modtf.routing.measuring.summarise import (
    NUM_PERMUTATIONS,
    Options,
    Progress,
    check_permutations,
    measure_matrix,
    measure_tables,
)
from modtf.routing.measuring.table import KEPT, MOST_UNITS, LayerTable, check_labels_fit, layer_sizes
from modtf.routing.measuring.tokens import Part, Tokens, group_documents, spread_labels

NUM_GROUPS = 32
MOST_GROUPS = 2**16


def measure_activations(
    activations: Any = None,
    labels: ArrayLike | None = None,
    *,
    activation_matrix: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    experts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    num_experts: int | None = None,
    shared: Sequence[int] = (),
    documents: ArrayLike | None = None,
    spans: ArrayLike | None = None,
    from_logits: bool = False,
    top_k: int | None = None,
    label_probs: ArrayLike | None = None,
    groups: Iterable[str] = GROUPS,
    permutations: int = NUM_PERMUTATIONS,
    confidence: float = 0.95,
    num_groups: int = NUM_GROUPS,
    seed: int = 0,
    progress: Progress = iter,
) -> list[LayerMeasures]:
    """Measure how the modules (experts) of a mixture are used, and whether they specialise in labels.

    A label is a token's domain, language or class. Without labels the load is measured: collapse, load
    variation, effective experts, and the routing entropy of all tokens together.

    Everything is measured twice: by gate mass (the probabilities of the modules) and by hard assignment (the
    chosen modules: argmax, or the k largest at 1/k each; ties go to the first). The two can differ.

    The intervals come from a jackknife over groups of tokens, with the labels fixed. Tokens of one document
    are alike, so a million tokens may carry as much information as a thousand. Pass `documents`, and the
    tokens of a document stay in one group. Otherwise runs of neighbouring tokens of a label stay in one
    group, which helps as long as documents are shorter than a hundredth of their label's tokens. A perfect
    router has intervals of width 0, because no group of its tokens differs from another. If modules are
    independent of labels, or all modules are used equally, noise has only one direction and no interval is
    right (see `modtf.routing.measuring.estimates`). Look at the chance level in that case.

    The chance level is the measure under permuted labels: its value if modules are independent of labels,
    with the same numbers and frequencies of tokens, labels and modules. Neighbouring tokens are alike in any
    case. So documents with one label exchange labels as a whole. In a document with several labels, runs of
    one label exchange labels. Without `documents`, consecutive tokens of one label count as one document, and
    a warning says so.

    Args:
        activations: one of
            - gates `[tokens, M]` or `[layers, tokens, M]`, probabilities that sum to 1; or all 0 for a token
              that was dropped, because it exceeded the modules' capacity (counted in `dropped`);
            - logits of the same shapes, with `from_logits=True`;
            - a list of `[tokens, M]`, one per layer, if M differs;
            - `Experts` (`modtf.routing.measuring`), which the argument `experts` below creates;
            - chunks (activations, labels) or (activations, labels, documents), of any lengths, in a list or
              any iterable. Memory does not grow with the number of tokens. Labels may be None.
        labels: integers from 0, or names, `[tokens]`; or `[documents]`, if `documents` are their numbers.
        counts: in place of activations: how often the tokens of each document chose each expert, `[documents,
            layers, experts]`, with labels `[documents]`. A token makes `top_k` choices (1 for None). Both
            views are computed from the choices.
        activation_matrix: in place of activations: `[R, M]` or `[layers, R, M]`, rows p(module | label). It
            has no tokens, so there is no interval and no chance level.
        experts, weights, num_experts, shared: in place of activations: the experts of every token, `[tokens,
            k]` or `[layers, tokens, k]`, and their weights; see `Experts`. A layer in which all tokens have
            the same row (a placeholder) is left out with a warning.
        documents: integers or names `[tokens]`: which tokens belong together. The tokens of a document should
            be contiguous.
        spans: integers or names `[tokens]`: runs of one label within documents, such as chat turns. A run
            keeps one label when labels are permuted. By default consecutive tokens of one label are a run.
        from_logits: whether activations are logits, before the softmax.
        top_k: the number of modules per token. If given, only the k largest gates count, renormalised.
        label_probs: p(label) `[R]`, for the labels that occur, in the order of their numbers, or of the
            alphabet if they are names; "uniform"; or None for the observed frequencies (uniform for
            `activation_matrix`). With these, module use is the observed load.
        groups: which measures; by default all, including the practitioners' diagnostics.
        permutations: how often labels are permuted; 0 for no chance level.
        confidence: the confidence level of the intervals.
        num_groups: the number of groups of tokens, for the intervals.
        seed: the seed of the permutations.
        progress: wraps the chunks while they are read, and the layers while they are measured, as `tqdm`.

    Returns:
        One `LayerMeasures` per layer. Its `to_rows()` gives one dict per measure, `module_rows()` one per
        module. `adjusted_mutual_information` is added to the measures: the share of the possible information
        about labels that modules carry, corrected for chance (see
        `modtf.routing.measuring.estimates.estimates`). The warnings of a layer name the modules with too few
        tokens to judge: fewer than 5 for each label.

    Raises:
        ValueError: if an argument is invalid; the message says which, what was expected and how to fix it.

    Example:
        >>> import numpy as np
        >>> labels = np.arange(1000) % 4
        >>> chosen = np.stack([labels, labels + 4], axis=1)  # the experts of every token, of eight
        >>> (layer,) = measure_activations(labels=labels, experts=chosen, num_experts=8, permutations=20)
        >>> round(layer.hard.values["adjusted_mutual_information"].value, 3)
        1.0
        >>> gates = 0.6 * np.eye(4)[labels] + 0.1
        >>> (layer,) = measure_activations(gates, labels, permutations=20)
        >>> round(layer.mass.values["alignment"].value, 3), layer.hard.values["alignment"].value
        (0.3, 0.0)
    """
    if sum(one is not None for one in (activations, experts, counts, activation_matrix)) != 1:
        raise ValueError(
            "Give exactly one of activations, experts (with num_experts), counts and activation_matrix."
        )
    if experts is not None:
        activations = Experts(experts, num_experts, weights, shared)
    elif weights is not None or num_experts is not None or not isinstance(shared, Sequence) or len(shared):
        raise ValueError(
            "weights, num_experts and shared apply to experts only. Give experts, or leave them out."
        )
    check_callable("progress", progress)
    describes_tokens = documents is not None or spans is not None or from_logits
    if activation_matrix is not None:
        if describes_tokens or labels is not None or top_k is not None:
            raise ValueError(
                "labels, documents, spans, from_logits and top_k do not apply to an activation_matrix, whose "
                "rows are p(module | label). Give the tokens' gates as activations."
            )
        matrices = [check_activation_matrix(A) for A in as_layers(activation_matrix)]
        return [measure_matrix(A, i, label_probs, groups) for i, A in enumerate(matrices)]
    options: dict[str, Any] = {
        "label_probs": label_probs, "groups": groups, "permutations": permutations,
        "confidence": confidence, "seed": seed,
    }  # fmt: skip
    is_stream = labels is None and _is_stream(activations)
    if counts is None and not is_stream:
        layers = layers_of(activations, from_logits, top_k)
        of_tokens = spread_labels(labels, documents, len(layers[0]))
        return measure_layers(layers, of_tokens, documents, spans, Options(**options), num_groups, progress)
    accumulator = ActivationAccumulator(from_logits=from_logits, top_k=top_k, num_groups=num_groups)
    if counts is None:
        if documents is not None or spans is not None:
            raise ValueError("Give documents as part of the chunks: (activations, labels, documents, spans).")
        for chunk in progress(_chunks_of(activations)):
            accumulator.update(*chunk)
    elif describes_tokens:
        raise ValueError(
            "documents, spans and from_logits do not apply to counts, which are sums over documents: "
            "[documents, layers, experts]."
        )
    else:
        accumulator.update_counts(counts, labels)
    return accumulator.result(progress=progress, **options)


def measure_layers(
    layers: Sequence[Layer], labels: Any, documents: Any, spans: Any, options: Options,
    num_groups: int = NUM_GROUPS, progress: Progress = iter, label_names: Sequence[str] | None = None,
) -> list[LayerMeasures]:  # fmt: skip
    """Return the measures of layers, of which one at a time is read; arguments as `measure_activations`."""
    check_integer("num_groups", num_groups, 2, MOST_GROUPS)
    tokens, sizes = Tokens(num_groups), [layer.num_modules for layer in layers]
    parts = tokens.parts(len(layers[0]), labels, documents, spans, sizes)
    if not parts:
        raise ValueError("There are no tokens; expected at least one.")
    check_labels_fit(len(tokens.counts), [max(sizes)], num_groups)
    check_permutations("permutations", options.permutations, (len(tokens.counts), max(sizes)))

    def tables() -> Iterator[LayerTable]:
        for number, layer in enumerate(progress(layers)):
            yield table_of(layer, number, tokens, parts, KEPT // sum(sizes))

    return measure_tables(tables(), tokens, _kind(layers[0]), layers[0].top_k, options, label_names)


def table_of(
    layer: Layer, number: int, tokens: Tokens, parts: Sequence[Part], most: int = KEPT
) -> LayerTable:
    """Return the sums of a layer over all tokens, with up to `most` units of them."""
    table = LayerTable(number, layer.module_numbers, tokens.num_groups, min(most, MOST_UNITS))
    table.make_room(len(tokens.counts))
    for part in parts:
        table.add(layer, part)
    return table


def _kind(layer: Layer) -> str:
    return ("Logits" if layer.from_logits else "Gates") if isinstance(layer, GateLayer) else "Experts"


def _is_stream(activations: Any) -> bool:
    """Return whether activations are chunks to iterate over, rather than arrays or nested lists."""
    if isinstance(activations, list | tuple):
        first = activations[0] if activations else None
        if not isinstance(first, list | tuple) or len(first) not in (2, 3, 4):
            return False
        return isinstance(first[0], Gates | Experts) or dimensions(first[0]) not in (0, 1)
    return not hasattr(activations, "__array__") and isinstance(activations, Iterable)


def _chunks_of(stream: Iterable[Any]) -> Iterator[Any]:
    """Yield the chunks of an iterable: (activations, labels), with documents and spans if given."""
    for number, chunk in enumerate(stream):
        is_list, kind = isinstance(chunk, list | tuple), type(chunk).__name__
        if not is_list or len(chunk) not in (2, 3, 4):
            shape = getattr(chunk, "shape", None)
            words = f"a {kind} of {len(chunk)}" if is_list else f"of type {kind}"
            words += "" if shape is None else f" and shape {tuple(shape)}"
            raise ValueError(
                f"Chunk {number} is {words}; expected (activations, labels) or (activations, "
                "labels, documents). To pass whole arrays, give labels=..., too."
            )
        yield chunk


class ActivationAccumulator:
    """An accumulator of a router's activations, chunk by chunk; `result()` returns the measures.

    Its memory does not grow with the number of tokens.

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
        self.tokens = Tokens(check_integer("num_groups", num_groups, 2, MOST_GROUPS))
        self.tables: list[LayerTable] = []  # one per layer
        self._form: tuple[str, int | None] = "", None  # of all chunks: what they are, and k

    def update(
        self,
        activations: ArrayLike | Gates | Experts,
        labels: ArrayLike | None = None,
        documents: ArrayLike | None = None,
        spans: ArrayLike | None = None,
    ) -> None:
        """Add a chunk of tokens, of any length.

        Args:
            activations: gates or logits `[tokens, M]` or `[layers, tokens, M]`; or a list of `[tokens, M]`,
                one per layer, if M differs; or `Experts`.
            labels, documents, spans: integers from 0, or names, `[tokens]`; see `measure_activations`. Give
                each of them for all chunks or for none.

        Raises:
            ValueError: if an argument is invalid, or its size differs from the chunks before. Part of the
                chunk may have been added by then: start with a new accumulator.
        """
        layers = layers_of(activations, self.from_logits, self.top_k)
        sizes = [layer.num_modules for layer in layers]
        parts = self.tokens.parts(len(layers[0]), labels, documents, spans, sizes)
        if not parts:
            return
        self._make_room([layer.module_numbers for layer in layers], (_kind(layers[0]), layers[0].top_k))
        for layer, table in zip(layers, self.tables, strict=True):
            for part in parts:
                table.add(layer, part)

    def update_counts(self, counts: "ArrayLike | Counted", labels: ArrayLike | None = None) -> None:
        """Add documents for which only sums over tokens are known; see `measure_activations`.

        Args:
            counts: see `Counted`.
            labels: integers from 0, or names, `[documents]`.

        Raises:
            ValueError: as for `update`.
        """
        counted = counts if isinstance(counts, Counted) else Counted(counts, self.top_k)
        sums, k = counted.counts, self.top_k or 1
        number, num_layers, _ = sums.shape
        hint = "Counts have one label for each document."
        tokens, classes = self.tokens, np.zeros(number, np.int64)
        if labels is not None:
            classes = tokens.numbers["labels"].assign(labels, number, hint)
        tokens.check_given({"labels": labels is not None, "documents": True, "spans": False})
        tokens.make_room(int(classes.max()) + 1)
        self._make_room([counted.expert_numbers] * num_layers, ("Counts of choices", self.top_k))
        group = group_documents(tokens.num_documents + np.arange(number), tokens.num_groups)
        num_tokens = sums.sum(axis=2).max(axis=1) / k
        tokens.counts += np.bincount(classes, num_tokens, len(tokens.counts))
        tokens.num_documents += number
        for place, table in enumerate(self.tables):
            table.add_counts(sums[:, place], k, classes, group, math.ceil(num_tokens.sum()))

    def _make_room(self, numbers: list[Ints], form: tuple[str, int | None]) -> None:
        """Make the tables at the first chunk; add rows for labels that were not seen before."""
        sizes, num_labels = list(map(len, numbers)), len(self.tokens.counts)
        if not self.tables:
            most, self._form = min(KEPT // sum(sizes), MOST_UNITS), form
            self.tables = [
                LayerTable(place, one, self.tokens.num_groups, most) for place, one in enumerate(numbers)
            ]
        if form != self._form:
            now, before = (
                f"{kind.lower()}{f' with {k} for each token' * bool(k)}" for kind, k in (form, self._form)
            )
            raise ValueError(
                f"This chunk holds {now}, and those before {before}. Give all chunks in the same form."
            )
        known = [table.module_numbers for table in self.tables]
        if sizes != list(map(len, known)) or not all(map(np.array_equal, numbers, known)):
            raise ValueError(
                f"The chunk has {layer_sizes(sizes)}; expected {layer_sizes(list(map(len, known)))} and the "
                "same shared experts, as in the chunks before."
            )
        check_labels_fit(num_labels, sizes, self.tokens.num_groups)
        for table in self.tables:
            table.make_room(num_labels)

    def result(
        self, *, progress: Progress = iter, label_names: Sequence[str] | None = None, **options: Any
    ) -> list[LayerMeasures]:
        """Return the measures of the tokens so far, one entry per layer.

        Args:
            progress: wraps the layers while they are measured.
            label_names: the names of labels that came as numbers, for warnings.
            **options: `label_probs`, `groups`, `permutations`, `confidence` and `seed` of
                `measure_activations`.

        Raises:
            ValueError: if no token was added, or an argument is invalid.
        """
        check_callable("progress", progress)
        chosen = Options(**options)
        if not self.tables:
            raise ValueError("There are no tokens; expected at least one.")
        check_permutations("permutations", chosen.permutations, self.tables[0].groups.shape[2:])
        copies = (deepcopy(table) for table in progress(self.tables))  # more tokens may follow
        return measure_tables(copies, self.tokens, *self._form, chosen, label_names)


class Counted:
    """How often the tokens of each document chose each expert, in place of the tokens.

    Counts are enough for the measures of load and of labels, and for their chance levels. Single tokens are
    needed for co-activation, repetition, caches, comparisons and `measure_factors`.

    Args:
        counts: `[documents, layers, experts]`, or `[documents, experts]` for one layer.
        top_k: the number of experts per token, without the shared ones, if it is known.
        shared: experts that every token goes to, which are left out.

    Raises:
        ValueError: if an argument is invalid, or counts do not fit tokens of `top_k` choices.
    """

    def __init__(self, counts: ArrayLike, top_k: int | None = None, shared: Sequence[int] = ()):
        array = from_bfloat16(as_numbers(counts, "counts"))
        array = array[:, np.newaxis] if array.ndim == 2 else array
        if array.ndim != 3 or 0 in array.shape:
            raise ValueError(
                f"counts have shape {np.shape(counts)}; expected [documents, layers, experts] or [documents, "
                "experts]."
            )
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"counts hold {array.min():g}; expected finite numbers of at least 0.")
        if (array != np.round(array)).any():
            raise ValueError(
                "counts hold fractions; expected integers, how often the tokens of a document chose each "
                "expert."
            )
        self.top_k, self.shared = top_k, check_shared(shared, array.shape[2])
        _check_counted_for_all(self.shared, array, top_k)
        self.expert_numbers = without_shared(array.shape[2], self.shared)
        self.counts = array[:, :, self.expert_numbers].astype(np.int64)
        if (self.counts.max(axis=2, initial=0) * (top_k or 1) > self.counts.sum(axis=2)).any():
            raise ValueError(
                f"counts hold more choices of an expert than tokens, if each token makes {top_k or 1} "
                "choices; expected each expert at most once among a token's choices."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape [layers, documents, E]."""
        return (self.counts.shape[1], self.counts.shape[0], self.counts.shape[2])


def _check_counted_for_all(shared: Sequence[int], counts: NDArray[Any], top_k: int | None) -> None:
    """Raise `ValueError` if counts `[documents, layers, E]` of a shared expert miss some tokens.

    Every token of a layer goes to it, so no expert is counted more often, and the experts that are not shared
    at most `top_k` times as often. A layer without it is a placeholder for a dense layer.
    """
    others = np.delete(counts, list(shared), axis=2).sum(axis=2)
    for one in shared:
        number = counts[..., one]
        wrong = number < counts.max(axis=2)
        if top_k is not None:
            wrong |= others > top_k * number
        if not number.any() or (wrong & number.any(axis=0)).any():
            raise ValueError(
                f"shared holds {one}, but {number.sum()} choices of it are too few; expected an expert that "
                "every token goes to. Leave out shared if the counts hold none."
            )
