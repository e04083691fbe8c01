"""Compute the measures of each layer from sums over tokens, or from a bare activation matrix."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.checks import check_integer
from modtf.base.memory import check_fits
from modtf.metrics.activation_matrix import check_rule_probs
from modtf.metrics.distributions import Array, as_numbers
from modtf.metrics.registry import MEASURES
from modtf.routing.measuring.checks import Ints
from modtf.routing.measuring.documents import Documents
from modtf.routing.measuring.estimates import estimates, mean_and_range
from modtf.routing.measuring.excess import FEWEST_DRAWS, Excess
from modtf.routing.measuring.layer import TOKENS_PER_LABEL, Estimate, LayerMeasures, View
from modtf.routing.measuring.stacked import measure_stack

BY = ("mass", "hard")
ENTROPY = "routing_entropy"  # with a single label this is the entropy of the load, which needs no labels
NUM_PERMUTATIONS = 100
TINY = np.finfo(np.float32).tiny
MOST_PERMUTATIONS = 1_000_000  # they give a chance level with an error of 1/1000 of its spread
Progress = Callable[[Any], Iterable[Any]]


@dataclass(frozen=True)
class Options:
    """The options of a measurement, see `measure_activations`, and the notes for all layers."""

    label_probs: ArrayLike | None
    groups: tuple[str, ...]
    permutations: int
    confidence: float
    seed: int
    names: tuple[str, ...] | None
    how: str
    warnings: tuple[str, ...]


def check_permutations(name: str, number: Any, matrix: Sequence[int]) -> int:
    """Return the number of permutations; `ValueError` if their matrices `[R, M]` do not fit in memory."""
    number = check_integer(name, number, 0, MOST_PERMUTATIONS)
    needed = {"permuted matrices": 8 * number * math.prod(matrix)}
    check_fits(f"{name}={number}", needed, "Choose fewer permutations, or label tokens by fewer classes.")
    return number


def measure_layer(
    layer: int, numbers: Ints, groups: Array, documents: Documents, seen: Array, options: Options
) -> LayerMeasures:
    """Return the measures of a layer from its sums.

    Args:
        layer: the layer's number.
        numbers: the numbers of its modules, `[M]`.
        groups: `[2, groups, R, M]`, sums of activations in the order of BY.
        documents: the sums over documents of the same tokens.
        seen: `[R]`, the tokens of each label, including dropped tokens.
        options: how to measure.
    """
    counts = groups[-1].sum(axis=-1)  # tokens; of choices that are counted, k make one token
    labels = np.flatnonzero(counts.sum(axis=0))
    if not labels.size:
        raise ValueError(
            f"All gates of layer {layer} are 0, so no module took a token. Leave out the layer, or give its "
            "gates."
        )
    counts, sizes = counts[:, labels], counts.sum(axis=0)[labels]
    probs = _label_probs(options.label_probs, sizes, labels, np.flatnonzero(seen))
    tokens = documents.sent
    too_few = tokens < TOKENS_PER_LABEL * len(labels)
    views: list[View] = []
    permutations = options.permutations if len(labels) > 1 else 0  # permuting one label changes nothing
    chances = documents.permuted(labels, permutations, options.seed)
    for name, sums, chance in zip(BY, groups, chances, strict=True):
        if views and np.array_equal(groups[0], groups[1]):  # true for counts, and experts without weights
            views.append(replace(views[0], by=name))
            continue
        per_group = sums[:, labels]
        A = per_group.sum(axis=0) / sizes[:, np.newaxis]
        # Units differ in length, so permuting changes label frequencies. Normalising the rows undoes that.
        chance /= np.maximum(chance.sum(axis=2, keepdims=True), TINY)
        measure = measuring(A, probs, options.groups)
        measured, adjusted = estimates(measure, per_group, counts, chance, options.confidence)
        view = _view(name, A, probs, labels, measured, chance, too_few)
        views.append(replace(view, adjusted_by_chance=adjusted))
    few_documents = labels[documents.counts[labels] == 1] if not documents.num_several else labels[:0]
    notes = (*options.warnings, *_warnings(numbers, too_few, labels, counts, few_documents))
    dropped = max(round(float(seen.sum() - sizes.sum())), 0)
    return LayerMeasures(
        layer, labels, numbers, np.rint(sizes).astype(np.int64), tokens, too_few, tuple(views), notes,
        options.names, dropped, options.how,
    )  # fmt: skip


def measure_matrix(
    A: Array, layer: int, label_probs: ArrayLike | None, groups: Iterable[str]
) -> LayerMeasures:
    """Return the measures of an activation matrix `[R, M]`, without interval and chance level."""
    num_rules, num_modules = A.shape
    labels = np.arange(num_rules)
    probs = _label_probs(label_probs, np.ones(num_rules, np.int64), labels, labels)
    measured = measuring(A, probs, groups)(A[np.newaxis])
    values = {name: Estimate(float(value)) for name, (value,) in measured.items()}
    nothing = np.zeros((0, num_rules, num_modules))
    view = _view(BY[0], A, probs, labels, values, nothing, np.zeros(num_modules, bool))
    note = (
        "This is an activation matrix only, so intervals, chance level, hard assignment and token counts "
        "are missing."
    )
    return LayerMeasures(layer, labels, np.arange(num_modules), None, None, None, (view,), (note,))


def measuring(A: Array, probs: Array, groups: Iterable[str]) -> Callable[[Array], dict[str, Array]]:
    """Return a function that measures matrices `[N, R, M]` like `A [R, M]`, with p(label) `[R]`.

    With a single label it returns only the measures that need no labels.
    """
    order, names = _order(A, probs), tuple(groups)

    def measure(matrices: Array) -> dict[str, Array]:
        if len(probs) > 1:
            return measure_stack(matrices[:, order], probs[order], names)
        # Measures need two labels. Two equal rows leave the measures without labels unchanged.
        twice = measure_stack(np.repeat(matrices, 2, axis=1), np.full(2, 0.5), names)
        return {name: v for name, v in twice.items() if not MEASURES[name].needs_labels or name == ENTROPY}

    return measure


def probabilities(label_probs: ArrayLike | None, counts: Array) -> Array:
    """Return p(label) `[R]` for labels with these counts, all above 0."""
    labels = np.arange(len(counts))
    return _label_probs(label_probs, counts, labels, labels)


def _view(
    by: str, A: Array, probs: Array, labels: Ints, values: Mapping[str, Estimate], chance: Array,
    too_few: NDArray[np.bool_],
) -> View:  # fmt: skip
    """Return a view, from its matrix and the matrices under permuted labels `[permutations, R, M]`."""
    share = _shares(A, probs)
    excess, largest = np.full(A.shape, np.nan), np.full(len(chance), np.nan)
    # One matrix at a time fits into the processor's cache.
    shares = np.array([_shares(one, probs) for one in chance]).reshape(chance.shape)
    top_by_chance = np.ma.masked_invalid(shares.max(axis=1)).mean(axis=0)  # over active modules only
    if len(chance) >= FEWEST_DRAWS and not too_few.all():
        beyond = Excess(shares)
        excess = np.where(too_few, np.nan, beyond.of(share))
        largest = np.array([beyond.of_draw(one)[:, ~too_few].max() for one in shares])
    return View(
        by=by,
        activation=A,
        use=probs @ A,
        values=values,
        top_label=labels[(probs[:, np.newaxis] * A).argmax(axis=0)],
        top_label_share=share.max(axis=0),
        top_label_chance=top_by_chance.filled(np.nan),
        shares=share,
        excess=excess,
        largest_excess_by_chance=largest,
        bits=_bits(A, probs),
        bits_by_chance=mean_and_range(
            np.array([_bits(one, probs) for one in chance]).reshape(chance.shape[:2])
        ),
        shuffled=chance[0] if len(chance) else None,
    )


def _order(A: Array, probs: Array) -> Ints:
    """Return an order of labels that does not depend on their numbers, which `adaptation` needs."""
    use = probs @ A
    keys = ((A**2) @ use, (A**2).sum(axis=1), A @ use, probs)  # the last key sorts first
    return np.lexsort([np.round(key, 9) for key in keys])


def _label_probs(label_probs: ArrayLike | None, counts: Array, labels: Ints, seen: Ints) -> Array:
    """Return p(label) `[R]` of a layer's labels, from `label_probs` for all labels seen in any layer."""
    if label_probs is None:
        return counts / counts.sum()
    if isinstance(label_probs, str):
        if label_probs != "uniform":
            raise ValueError(
                f"label_probs={label_probs!r} is not valid; expected 'uniform', None (as observed) or "
                "numbers."
            )
        return check_rule_probs(None, len(counts))
    numbers = as_numbers(label_probs, "label_probs")
    if np.size(numbers) != len(seen):
        raise ValueError(
            f"label_probs has {np.size(numbers)} entries; expected one for each of {len(seen)} labels that "
            "occur."
        )
    probs = check_rule_probs(numbers, len(seen))[seen.searchsorted(labels)]
    return np.asarray(probs / probs.sum())


def _shares(A: Array, probs: Array) -> Array:
    """Return p(r | m), `[..., R, M]`, from matrices `[..., R, M]`; NaN for a module that is never active."""
    joint = probs[..., np.newaxis] * A
    use = joint.sum(axis=-2, keepdims=True)
    return np.divide(joint, use, out=np.full_like(joint, np.nan), where=use > 0)


def _bits(A: Array, probs: Array) -> Array:
    """Return sum_m p(m | r) log2 p(m | r) / p(m), the information of a label about the module, in bits."""
    use = (probs[..., np.newaxis] * A).sum(axis=-2, keepdims=True)
    ratio = np.divide(A, use, out=np.ones_like(A), where=A > 0)
    return np.asarray((A * np.log2(ratio)).sum(axis=-1))


def _warnings(
    numbers: Ints, too_few: NDArray[np.bool_], labels: Ints, counts: Array, alone: Ints
) -> Iterator[str]:
    by_module, by_label = f"{len(numbers)} modules", f"{len(labels)} labels"
    enough, frequent = TOKENS_PER_LABEL * len(labels), TOKENS_PER_LABEL * len(numbers)
    alone = alone[: len(alone) * (len(labels) > 1)]  # with a single label there is no other to compare
    for modules, among, words in (
        (numbers[too_few], by_module, f"have fewer than {enough} tokens ({TOKENS_PER_LABEL} for each "
         f"of {by_label}), so their specialisation cannot be judged."),
        (labels[counts.sum(axis=0) < frequent], by_label, f"have fewer than {frequent} tokens "
         f"({TOKENS_PER_LABEL} for each of {by_module}), so their rows of the activation matrix are noisy."),
        (labels[(counts > 0).sum(axis=0) == 1], by_label, "are in only one group of tokens, so the intervals "
         "do not include the uncertainty of their rows."),
        (alone, by_label, "are in only one document, so their effect cannot be separated from the "
         "document's."),
    ):  # fmt: skip
        if modules.size:
            shown = ", ".join(map(str, modules[:10])) + (", ..." if modules.size > 10 else ".")
            yield f"{modules.size} of {among} {words} They are {shown}"
