"""Compare how several models or checkpoints route the same tokens: paired differences, matched experts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from modtf.base.checks import check_callable, check_integer
from modtf.metrics.distributions import Array
from modtf.metrics.registry import GROUPS, MEASURES
from modtf.routing.measuring.activations import NUM_GROUPS, measure_layers, table_of
from modtf.routing.measuring.estimates import ADJUSTED, INVERSE, jackknife, mean_and_range, ratio_half_width
from modtf.routing.measuring.layers import Ints, Layer, choices_of, layers_of
from modtf.routing.measuring.results import Estimate, LayerMeasures
from modtf.routing.measuring.summarise import (
    BY,
    NUM_PERMUTATIONS,
    Options,
    Progress,
    label_probabilities,
    measuring,
)
from modtf.routing.measuring.tokens import (
    MOST_TOKENS,
    Numbers,
    Tokens,
    assumed_documents,
    drawn_tokens,
    paired,
    spread_labels,
)

SHARED = "shared_routing"
PERMUTATIONS = 10  # pairings of documents, for the routing that matched experts share by chance


@dataclass(frozen=True)
class Run:
    """A model or checkpoint: its name, its layers, and their measures."""

    name: str
    layers: Sequence[Layer]
    measured: Sequence[LayerMeasures]


@dataclass(frozen=True)
class Compared:
    """The difference between the same layer of two runs.

    Attributes:
        layer: the layer's number, from 0.
        run, against: the names of the two runs.
        differences: way of counting -> measure -> value of `run` minus value of `against`.
        shared: the share of the tokens' choices that agree, after the experts are matched, of those that
            could: 1 of a token with 1 choice in one run and 2 in the other; half of a token's choices if
            the other run dropped it. Its chance level comes from tokens that
            are paired with tokens of another document.
        experts: `[M]`, the expert of `run` matched with each expert of `against`; -1 if it has no match.
        overlap: `[M]`, the share of the tokens of each expert of `against` that its match gets, too; NaN if
            the expert has no tokens.
        warnings: for the reader: what stands for documents in `shared`, if there are none.
        num_groups, confidence: of the intervals of differences: the groups of documents, and the level.
    """

    layer: int
    run: str
    against: str
    differences: Mapping[str, Mapping[str, Estimate]]
    shared: Estimate
    experts: Ints
    overlap: Array
    warnings: tuple[str, ...]
    num_groups: int
    confidence: float

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dict per way of counting and measure, and one of measure "shared_routing".

        Its keys are layer, run, against, by, measure, value, low, high, chance.
        """
        estimates = [
            (by, name, one) for by, values in self.differences.items() for name, one in values.items()
        ]
        return [
            {"layer": self.layer, "run": self.run, "against": self.against, "by": by, "measure": name,
             "value": one.value, "low": one.low, "high": one.high, "chance": one.chance}
            for by, name, one in [*estimates, (BY[1], SHARED, self.shared)]
        ]  # fmt: skip


def compare_activations(
    runs: Mapping[str, Any],
    labels: ArrayLike | None = None,
    *,
    documents: ArrayLike | None = None,
    from_logits: bool = False,
    top_k: int | None = None,
    permutations: int = NUM_PERMUTATIONS,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress = iter,
) -> list[Compared]:
    """Compare how two models, or checkpoints of one over training, route the same tokens.

    Differences are paired: the jackknife leaves the same documents out of both runs, so variation between
    documents cancels. Experts of two models do not correspond by number. They are matched one to one, so that
    as many choices as possible agree. Without documents, the interval and the chance level of shared routing
    take runs of tokens of one label as documents, or 64 stretches of consecutive tokens if runs are short or
    there are no labels. `warnings` says so.

    Args:
        runs: name -> activations as for `measure_activations` (no chunks), or `Experts`. All runs have
            exactly the same tokens. Every run is compared with the first.
        labels, documents, from_logits, top_k, permutations, confidence, seed: as for `measure_activations`.
        progress: wraps the layers while they are compared, for example `tqdm`.

    Returns:
        One `Compared` per layer and per run after the first. Its `to_rows()` gives dicts for a data frame.

    Raises:
        ValueError: if there is only one run, runs differ in tokens or layers, or an argument is invalid.

    Example:
        >>> labels = np.arange(900) % 3
        >>> early = np.eye(3)[np.random.default_rng(0).integers(3, size=900)]
        >>> (found,) = compare_activations({"early": early, "late": np.eye(3)[labels - 1]}, labels)
        >>> round(found.differences["hard"]["adjusted_mutual_information"].value, 1)
        1.0
    """
    check_compared("runs", runs, seed, progress)
    options, made = Options(None, GROUPS, permutations, confidence, seed), []
    for name, activations in runs.items():
        layers = layers_of(activations, from_logits, top_k)
        labels = spread_labels(labels, documents, len(layers[0]))
        made.append(Run(name, layers, measure_layers(layers, labels, documents, None, options)))
    return list(compare_runs(made, labels, documents, options, progress, labels))


def compare_runs(
    runs: Sequence[Run], labels: ArrayLike | None, documents: ArrayLike | None, options: Options,
    progress: Progress = iter, domains: ArrayLike | None = None,
) -> Iterator[Compared]:  # fmt: skip
    """Yield the comparison of each run with the first, layer by layer; see `compare_activations`.

    Without documents, runs of one of the `domains` stand for them.
    """
    first, *others = runs
    num_tokens = len(first.layers[0])
    for run in others:
        if len(run.layers) != len(first.layers):
            raise ValueError(
                f"{first.name} has {len(first.layers)} layers and {run.name} has {len(run.layers)}; "
                "expected the same number. Give the layers that correspond."
            )
        if len(run.layers[0]) != num_tokens:
            raise ValueError(
                f"{first.name} has {num_tokens} tokens and {run.name} has {len(run.layers[0])}; "
                "expected the same tokens in the same order. Run both models on the same texts."
            )
    tokens = Tokens(NUM_GROUPS)
    parts = tokens.parts(num_tokens, labels, documents, None)
    some, number, notes = _compared_tokens(documents, domains, num_tokens, options.seed)
    layers_of_runs = [{layer.layer for layer in run.measured} for run in runs]
    for place in progress(sorted(set.intersection(*layers_of_runs))):
        groups, *of_others = (table_of(run.layers[place], place, tokens, parts).groups for run in runs)
        num_groups = int(groups[1].any(axis=(1, 2)).sum())
        for run, other in zip(others, of_others, strict=True):
            differences = {
                by: _differences((first, run), (groups, other), place, view, options)
                for view, by in enumerate(BY)
            }
            layers = first.layers[place], run.layers[place]
            shared = _matched(layers, some, number, options)
            yield Compared(
                place, run.name, first.name, differences, *shared, notes, num_groups, options.confidence
            )


def check_compared(name: str, value: Any, seed: int, progress: Any) -> None:
    """Raise `ValueError` unless `value` maps two or more names, and seed and progress are valid."""
    if not isinstance(value, Mapping) or len(value) < 2:
        received = ", ".join(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
        raise ValueError(
            f"{name} is {received or 'empty'}; expected a dict of at least two by name, to compare."
        )
    check_integer("seed", seed, 0)
    check_callable("progress", progress)


def _compared_tokens(
    documents: ArrayLike | None, labels: ArrayLike | None, num_tokens: int, seed: int
) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Return tokens `[S]` as `drawn_tokens`, their documents `[S]`, and a warning if these are assumed.

    Without documents single tokens are drawn, so that all stretches have some.
    """
    if documents is not None:
        number = Numbers("documents").assign(documents, num_tokens)
        some = drawn_tokens(number, MOST_TOKENS, seed)
        return some, number[some], ()
    of_tokens = None if labels is None else Numbers("labels").assign(labels, num_tokens)
    assumed, note = assumed_documents(of_tokens, num_tokens)
    generator = np.random.default_rng(seed)
    some = np.sort(generator.choice(num_tokens, min(num_tokens, MOST_TOKENS), replace=False))
    return some, assumed[some], (note,)


def _differences(
    runs: tuple[Run, Run], groups: tuple[Array, Array], place: int, view: int, options: Options
) -> dict[str, Estimate]:
    """Return the difference of every measure: the value of the second run minus the value of the first.

    `groups` are the sums of both by way of counting, group and label, `[2, groups, R, M]`.
    """
    counts = [np.rint(sums[1].sum(axis=-1)) for sums in groups]  # [groups, R]
    labels = np.flatnonzero(np.logical_and(*(some.sum(axis=0) > 0 for some in counts)))
    cut = groups[0].shape[-1]
    of_layer = [next(layer for layer in run.measured if layer.layer == place) for run in runs]
    values = [layer.views[view].values for layer in of_layer]
    measures = []
    for sums, some in zip(groups, counts, strict=True):
        A = sums[view][:, labels].sum(axis=0)
        probs = label_probabilities(options.label_probs, some[:, labels].sum(axis=0))
        measures.append(measuring(A / A.sum(axis=1, keepdims=True), probs, GROUPS))

    def change(C: Array) -> dict[str, Array]:
        """Return the differences from matrices `[N, R, M + M']`, the rows of both runs concatenated."""
        adjusted = []
        for measure, A, known in zip(measures, (C[..., :cut], C[..., cut:]), values, strict=True):
            one = measure(A / A.sum(axis=-1, keepdims=True))
            if INVERSE in one:  # there are labels
                scale = known[INVERSE].chance  # 1 - information by chance
                one |= {ADJUSTED: (scale - one[INVERSE]) / scale}
            adjusted.append(one)
        return {name: adjusted[1][name] - adjusted[0][name] for name in adjusted[0]}

    side_by_side = np.concatenate([sums[view][:, labels] for sums in groups], axis=-1)
    intervals = jackknife(side_by_side, counts[0][:, labels].astype(np.int64), change, options.confidence)
    estimates = {}
    for name, (centre, half) in intervals.items():
        value = values[1][name].value - values[0][name].value
        middle = value if name == ADJUSTED else centre  # the adjusted value has no bias to remove
        low, high = MEASURES[name].range if name != ADJUSTED else (-1.0, 1.0)
        most = max(high - low, abs(value))  # a difference cannot be larger
        ends = min(middle - half, value), max(middle + half, value)
        estimates[name] = Estimate(value, *np.clip(ends, -most, most).tolist())
    return estimates


def _matched(
    layers: tuple[Layer, Layer], some: Ints, documents: Ints, options: Options
) -> tuple[Estimate, Ints, Array]:
    """Return the shared routing of matched experts, the match, and each expert's share of shared tokens."""
    from scipy.optimize import linear_sum_assignment  # slow to import
    from scipy.sparse import csr_array

    ones = []
    for layer in layers:
        sent, shape = choices_of(layer, some), (len(some), layer.num_modules)
        ones.append(csr_array((np.ones(len(sent[0])), sent), shape=shape))
    a, b = ones
    numbers = np.stack([a.sum(axis=1), b.sum(axis=1)])
    choices = np.where(numbers.all(axis=0), numbers.min(axis=0), numbers.mean(axis=0))  # that could agree
    together = (a.T @ b).toarray()
    rows, columns = linear_sum_assignment(together, maximize=True)
    share = together[rows, columns].sum() / choices.sum()
    _, document = np.unique(documents, return_inverse=True)
    same = a[:, rows].multiply(b[:, columns]).sum(axis=1)
    residuals = np.bincount(document, same - share * choices)
    half = ratio_half_width(residuals, choices.sum(), options.confidence)
    generator, chance = np.random.default_rng(options.seed), []
    order = np.argsort(document, kind="stable")
    first = a[order]
    for _ in range(PERMUTATIONS):
        shuffled = (first.T @ b[order[paired(document[order], generator)]]).toarray()
        chance.append(shuffled[linear_sum_assignment(shuffled, maximize=True)].sum() / choices.sum())
    sent = a.sum(axis=0)
    experts, overlap = np.full(len(sent), -1), np.full(len(sent), np.nan)
    experts[rows] = columns
    overlap[rows] = together[rows, columns] / np.where(sent > 0, sent, np.nan)[rows]
    band = mean_and_range(np.array(chance)).tolist()
    low, high = np.clip([share - half, share + half], 0.0, 1.0)
    return Estimate(float(share), float(low), float(high), *band), experts, overlap
