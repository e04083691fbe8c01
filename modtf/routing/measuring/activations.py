"""Measure a mixture of experts from anywhere: `measure_activations`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import ArrayLike

from modtf.base.checks import check_callable
from modtf.metrics.activation_matrix import check_activation_matrix
from modtf.metrics.measure import GROUPS
from modtf.routing.measuring.accumulator import NUM_GROUPS, ActivationAccumulator
from modtf.routing.measuring.checks import as_layers, dimensions, spread_labels
from modtf.routing.measuring.choices import layers_of
from modtf.routing.measuring.experts import Experts
from modtf.routing.measuring.layer import LayerMeasures
from modtf.routing.measuring.summarise import NUM_PERMUTATIONS, Progress, measure_matrix


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
        progress: wraps the tokens while they are read and the layers while they are measured, as `tqdm` does.

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
        return _measure_matrices(activation_matrix, label_probs, groups)
    accumulator = ActivationAccumulator(from_logits=from_logits, top_k=top_k, num_groups=num_groups)
    if counts is None:
        _add(accumulator, activations, labels, documents, spans, progress)
    elif describes_tokens:
        raise ValueError(
            "documents, spans and from_logits do not apply to counts, which are sums over documents: "
            "[documents, layers, experts]."
        )
    else:
        accumulator.update_counts(counts, labels)
    return accumulator.result(
        label_probs=label_probs, groups=groups, permutations=permutations, confidence=confidence, seed=seed,
        progress=progress,
    )  # fmt: skip


def _measure_matrices(layers: ArrayLike, label_probs: Any, groups: Iterable[str]) -> list[LayerMeasures]:
    matrices = [check_activation_matrix(A) for A in as_layers(layers)]
    return [measure_matrix(A, i, label_probs, groups) for i, A in enumerate(matrices)]


def _add(
    accumulator: ActivationAccumulator, activations: Any, labels: Any, documents: Any, spans: Any,
    progress: Progress,
) -> None:  # fmt: skip
    """Add all tokens, at once or chunk by chunk."""
    if labels is None and _is_stream(activations):
        if documents is not None or spans is not None:
            raise ValueError("Give documents as part of the chunks: (activations, labels, documents, spans).")
        for chunk in progress(_chunks_of(activations)):
            accumulator.update(*chunk)
        return
    if labels is not None and documents is not None:
        layers = layers_of(activations, accumulator.from_logits, accumulator.top_k)
        labels = spread_labels(labels, documents, len(layers[0]))
    accumulator.update(activations, labels, documents, spans, progress)


def _is_stream(activations: Any) -> bool:
    """Return whether activations are chunks to iterate over, rather than arrays or nested lists."""
    if isinstance(activations, list | tuple):
        first = activations[0] if activations else None
        return (
            isinstance(first, list | tuple) and len(first) in (2, 3, 4) and dimensions(first[0]) not in (0, 1)
        )
    return not hasattr(activations, "__array__") and isinstance(activations, Iterable)


def _chunks_of(stream: Iterable[Any]) -> Iterator[Any]:
    """Yield the chunks of an iterable: (activations, labels), with documents and spans if given."""
    for number, chunk in enumerate(stream):
        if not isinstance(chunk, (list, tuple)) or len(chunk) not in (2, 3, 4):
            raise ValueError(
                f"Chunk {number} is {_describe(chunk)}; expected (activations, labels) or (activations, "
                "labels, documents). To pass whole arrays, give labels=..., too."
            )
        yield chunk


def _describe(thing: Any) -> str:
    if isinstance(thing, (list, tuple)):
        return f"a {type(thing).__name__} of {len(thing)}"
    shape = getattr(thing, "shape", None)
    return f"of type {type(thing).__name__}" + ("" if shape is None else f" and shape {tuple(shape)}")
