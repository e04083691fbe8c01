"""Compute the measures of each layer from its table, or from a bare activation matrix."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.checks import check_integer, check_number
from modtf.base.memory import check_fits
from modtf.base.words import in_a_row, plural
from modtf.metrics.distributions import Array, as_numbers, check_distributions
from modtf.metrics.registry import GROUPS, MEASURES, check_groups
from modtf.metrics.values import measure_stack
from modtf.routing.measuring.damage import ENOUGH, Watch, assumes_one, warnings_of
from modtf.routing.measuring.estimates import FEWEST_DRAWS, Excess, estimates, mean_and_range
from modtf.routing.measuring.layers import Ints
from modtf.routing.measuring.results import ALL_TOKENS, TOKENS_PER_LABEL, Estimate, LayerMeasures, View
from modtf.routing.measuring.table import TINY, LayerTable
from modtf.routing.measuring.tokens import Tokens

BY = ("mass", "hard")
SHOWN = 10  # experts or labels that a warning names
ENTROPY = "routing_entropy"  # with a single label this is the entropy of the load, which needs no labels
NUM_PERMUTATIONS = 100
MOST_PERMUTATIONS = 1_000_000  # they give a chance level with an error of 1/1000 of its spread
Progress = Callable[[Any], Iterable[Any]]


@dataclass(frozen=True)
class Options:
    """The options of a measurement, see `measure_activations`."""

    label_probs: ArrayLike | None = None
    groups: Iterable[str] = GROUPS
    permutations: int = NUM_PERMUTATIONS
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", check_groups(self.groups))
        check_number("confidence", self.confidence, 0.5, 0.9999)
        check_integer("seed", self.seed, 0)


def check_permutations(name: str, number: Any, matrix: Sequence[int]) -> int:
    """Return the number of permutations; `ValueError` if their matrices `[R, M]` do not fit in memory."""
    number = check_integer(name, number, 0, MOST_PERMUTATIONS)
    needed = {"permuted matrices": 8 * number * math.prod(matrix)}
    check_fits(f"{name}={number}", needed, "Choose fewer permutations, or label tokens by fewer classes.")
    return number


def measure_tables(
    tables: Iterable[LayerTable], tokens: Tokens, kind: str, top_k: int | None, options: Options,
    label_names: Sequence[str] | None = None,
) -> list[LayerMeasures]:  # fmt: skip
    """Return the measures of each layer. Placeholders are left out, unless all layers are placeholders.

    One of the `tables` at a time is needed. `kind` says what they were made of: "Gates", "Logits", "Experts"
    or "Counts of choices". `label_names` are the names of labels that came as numbers, for readers.
    """
    label_probabilities(options.label_probs, np.ones(np.count_nonzero(tokens.counts)))  # before any work
    names = tuple(tokens.numbers["labels"].names) or None
    if names and options.label_probs is not None and not isinstance(options.label_probs, str):
        occur = np.array(names)[np.flatnonzero(tokens.counts)]  # in the order of their first tokens
        probs = as_numbers(options.label_probs, "label_probs").ravel()[occur.argsort().argsort()]
        options = replace(options, label_probs=probs)
    known = names or label_names
    watches: list[Watch] = []
    measured: list[LayerMeasures] = []
    placeholders: list[LayerTable] = []
    begin_at_1 = kind == "Experts"
    for table in tables:
        watches.append(table.watch)
        if kind == "Experts":
            _find_in_all(table, top_k or 1)
            sent = table.units.sent
            begin_at_1 &= len(sent) > 2 and not sent[0] and bool(sent[1:].all())
        if table.watch.is_placeholder:
            placeholders.append(table)
        else:
            measured.append(measure_table(table, tokens.counts, options, known))
    if not measured:
        for table in placeholders:
            table.watch.check_first()
        measured = [measure_table(table, tokens.counts, options, known) for table in placeholders]
    notes = [*warnings_of(watches, top_k), *tokens.notes()]
    if begin_at_1:
        notes.append("Expert 0 was never chosen, and all others were. If numbers begin at 1, subtract 1.")
    how = _how_measured(tokens, kind, top_k, assumes_one(watches), options, known)
    if not tokens.given["labels"]:
        names = (ALL_TOKENS,)
    return [
        replace(layer, warnings=(*notes, *layer.warnings), label_names=names, how=how) for layer in measured
    ]


def _find_in_all(table: LayerTable, k: int) -> None:
    """Note which of the k > 1 experts of a token are the same for all tokens of a layer."""
    sent, watch = table.units.sent, table.watch
    if k > 1 and len(sent) > k and not watch.alike and watch.num_tokens >= ENOUGH:
        kept = round(float(table.groups[1].sum()))  # tokens that were not dropped: each gives 1 in all
        watch.in_all = set(table.module_numbers[sent == kept].tolist())


def _how_measured(
    tokens: Tokens, kind: str, top_k: int | None, one_assumed: bool, options: Options,
    names: Sequence[str] | None,
) -> str:  # fmt: skip
    """Return a text that says what was measured, and explains intervals and chance levels."""
    if kind == "Counts of choices":
        kind += f", {top_k or 1} per token" + ("" if top_k else " (k is unknown)")
    elif top_k:
        kind += f", the {top_k} largest of each token"
    elif one_assumed:
        kind += "; one expert per token is assumed, because top_k is not given"
    intervals = f"Intervals: {100 * options.confidence:g}%."
    if not tokens.given["labels"]:
        return f"{kind}. No labels. {intervals}"
    if options.label_probs is None or isinstance(options.label_probs, str):
        frequencies = f"Labels as frequent as {options.label_probs or 'observed'}"
    else:
        labels = np.flatnonzero(tokens.counts).tolist()
        probs = as_numbers(options.label_probs, "label_probs").ravel().tolist()
        each = [f"{names[one] if names else one} = {p:.4g}" for one, p in zip(labels, probs, strict=False)]
        frequencies = f"Frequencies of labels: {', '.join(each)}"
    return (
        f"{kind}. {frequencies}. {intervals} "
        f"Chance: labels permuted over and within {tokens.num_documents} documents"
        + ("." if tokens.given["documents"] else " of one label in a row each, since none were given.")
    )


def measure_table(
    table: LayerTable, seen: Array, options: Options, names: Sequence[str] | None = None
) -> LayerMeasures:
    """Return the measures of a layer. `seen` `[R]` are the tokens of each label, including dropped ones."""
    groups, units = table.groups, table.units
    units.close()
    counts = groups[-1].sum(axis=-1)  # tokens; of choices that are counted, k make one token
    labels = np.flatnonzero(counts.sum(axis=0))
    if not labels.size:
        raise ValueError(
            f"All gates of layer {table.watch.number} are 0, so no expert took a token. Leave out the layer, "
            "or give its gates."
        )
    counts, sizes = counts[:, labels], counts.sum(axis=0)[labels]
    probs = label_probabilities(options.label_probs, sizes, np.isin(np.flatnonzero(seen), labels))
    too_few = units.sent < TOKENS_PER_LABEL * len(labels)
    views: list[View] = []
    permutations = options.permutations if len(labels) > 1 else 0  # permuting one label changes nothing
    chances = units.permuted(labels, permutations, options.seed)
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
    # A single label has no other one to compare it with.
    of_one_unit = labels[(units.sizes[0, labels] == 1) & (len(labels) > 1)]
    notes = _warnings(table.module_numbers, too_few, labels, counts, of_one_unit, names)
    dropped = max(round(float(seen.sum() - sizes.sum())), 0)
    return LayerMeasures(
        table.watch.number, labels, table.module_numbers, np.rint(sizes).astype(np.int64), units.sent,
        too_few, tuple(views), tuple(notes), None, dropped,
    )  # fmt: skip


def measure_matrix(
    A: Array, layer: int, label_probs: ArrayLike | None, groups: Iterable[str]
) -> LayerMeasures:
    """Return the measures of an activation matrix `[R, M]`, without interval and chance level."""
    num_rules, num_modules = A.shape
    labels = np.arange(num_rules)
    probs = label_probabilities(label_probs, np.ones(num_rules))
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
    use = probs @ A
    # `adaptation` needs an order of labels that does not depend on their numbers. The last key sorts first.
    keys = ((A**2) @ use, (A**2).sum(axis=1), A @ use, probs)
    order, names = np.lexsort([np.round(key, 9) for key in keys]), tuple(groups)
    without_labels = [name for name, one in MEASURES.items() if not one.needs_labels or name == ENTROPY]
    if len(probs) < 2 and not any(MEASURES[name].group in names for name in without_labels):
        known = dict.fromkeys(MEASURES[name].group for name in without_labels)
        raise ValueError(
            f"groups={', '.join(names)} compares labels, and there is only one. Give at least two labels, or "
            f"one of the groups {', '.join(known)}."
        )

    def measure(matrices: Array) -> dict[str, Array]:
        if len(probs) > 1:
            return measure_stack(matrices[:, order], probs[order], names)
        # Measures need two labels. Two equal rows leave the measures without labels unchanged.
        twice = measure_stack(np.repeat(matrices, 2, axis=1), np.full(2, 0.5), names)
        return {name: v for name, v in twice.items() if name in without_labels}

    return measure


def _view(
    by: str, A: Array, probs: Array, labels: Ints, values: Mapping[str, Estimate], chance: Array,
    too_few: NDArray[np.bool_],
) -> View:  # fmt: skip
    """Return a view, from its matrix and the matrices under permuted labels `[permutations, R, M]`."""
    share = _shares(A, probs)
    excess, largest = np.full(A.shape, np.nan), np.full(len(chance), np.nan)
    # One matrix at a time fits into the processor's cache.
    shares = np.array([_shares(one, probs) for one in chance]).reshape(chance.shape)
    bits_by_chance = np.array([_bits(one, probs) for one in chance]).reshape(chance.shape[:2])
    top_by_chance = np.ma.masked_invalid(shares.max(axis=1)).mean(axis=0)  # over active modules only
    if len(chance) >= FEWEST_DRAWS and not too_few.all():
        beyond = Excess(shares)
        excess = np.where(too_few, np.nan, beyond(share))
        largest = np.array([beyond.draw_excess(one)[:, ~too_few].max() for one in shares])
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
        bits_by_chance=mean_and_range(bits_by_chance),
        shuffled=chance[0] if len(chance) else None,
    )


def label_probabilities(
    label_probs: ArrayLike | None, counts: Array, used: NDArray[np.bool_] | None = None
) -> Array:
    """Return p(label) `[R]` of a layer's labels, from `label_probs` for all labels seen in any layer.

    `used` says which of these the layer has, by default all.
    """
    used = np.ones(len(counts), bool) if used is None else used
    if label_probs is None:
        return counts / counts.sum()
    if isinstance(label_probs, str):
        if label_probs != "uniform":
            raise ValueError(
                f"label_probs={label_probs!r} is not valid; expected 'uniform', None (as observed) or "
                "numbers."
            )
        return np.full(len(counts), 1.0 / len(counts))
    numbers = as_numbers(label_probs, "label_probs")
    if np.size(numbers) != len(used):
        raise ValueError(
            f"label_probs has {np.size(numbers)} entries; expected one for each of {len(used)} labels that "
            "occur."
        )
    probs = check_distributions(numbers, "label_probs", ndim=1)[used]
    if not probs.all():
        raise ValueError("label_probs holds 0 for a label that occurs. Leave out its tokens instead.")
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
    numbers: Ints,
    too_few: NDArray[np.bool_],
    labels: Ints,
    counts: Array,
    of_one_unit: Ints,
    names: Sequence[str] | None,
) -> Iterator[str]:
    enough, frequent = TOKENS_PER_LABEL * len(labels), TOKENS_PER_LABEL * len(numbers)
    for some, total, what, words in (
        (numbers[too_few], len(numbers), "expert", f"received fewer than {enough} tokens, {TOKENS_PER_LABEL} "
         f"for each of {plural(len(labels), 'label')}: too few to judge."),
        (labels[counts.sum(axis=0) < frequent], len(labels), "label", f"had fewer than {frequent} tokens, "
         f"{TOKENS_PER_LABEL} for each of {plural(len(numbers), 'expert')}: too few for a precise row of the "
         "activation matrix."),
        (labels[(counts > 0).sum(axis=0) == 1], len(labels), "label", "occurred in only one group of tokens, "
         "so intervals leave out this uncertainty."),
        (of_one_unit, len(labels), "label", "occurred in only one document or run, so the effect of a label "
         "cannot be separated from that of its document or run."),
    ):  # fmt: skip
        if some.size:
            yield f"{_counted(some, total, what, names if what == 'label' else None)} {words}"


def _counted(some: Ints, total: int, what: str, names: Sequence[str] | None) -> str:
    """Return "Expert 5", "Labels 'de' and 'fr'", "12 of 64 experts (0, 1, ...)" or "All 64 experts"."""
    if some.size == total > 1:
        return f"All {total} {what}s"
    named = [repr(names[one]) if names else str(one) for one in some[:SHOWN].tolist()]
    if some.size > SHOWN:
        return f"{some.size} of {total} {what}s ({', '.join(named)}, ...)"
    return f"{what.capitalize()}{'s' * (some.size > 1)} {in_a_row(named)}"
