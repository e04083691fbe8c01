"""From sums over tokens, or a bare activation matrix, to what is said of each layer."""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from modtf.metrics.activation_matrix import check_rule_probs
from modtf.metrics.distributions import Array, as_numbers
from modtf.metrics.tokens.chance import chance_matrices
from modtf.metrics.tokens.checks import Ints
from modtf.metrics.tokens.estimates import bare_estimates, estimates
from modtf.metrics.tokens.layer import TOKENS_PER_LABEL, LayerMeasures, View
from modtf.metrics.tokens.sums import BY, Sums
from modtf.metrics.values import measure_all


def measure_sums(
    sums: Sums,
    *,
    top_k: int | None,
    label_probs: ArrayLike | None,
    groups: Iterable[str],
    permutations: int,
    confidence: float,
    seed: int,
) -> list[LayerMeasures]:
    """What the sums say of each layer; arguments as for `measure_activations`."""
    labels = np.flatnonzero(sums.counts.sum(axis=0))
    counts = sums.counts[:, labels]
    label_counts = counts.sum(axis=0)
    probs = _label_probs(label_probs, label_counts)
    wanted = (groups,) if isinstance(groups, str) else tuple(groups)
    measure = partial(measure_all, rule_probs=probs, groups=wanted)
    layers = []
    for layer in range(sums.size[0]):
        views = []
        by_chance = chance_matrices(sums, layer, labels, top_k, permutations, seed)
        for by, name in enumerate(BY):
            per_group, chance = sums.groups[by, layer][:, labels], by_chance[by]
            A = per_group.sum(axis=0) / label_counts[:, np.newaxis]
            view = View(
                name,
                A,
                probs @ A,
                estimates(measure, per_group, counts, chance, confidence),
                labels[(probs[:, np.newaxis] * A).argmax(axis=0)],
                _top_share(A, probs),
                _mean_over_defined(_top_share(chance, probs)),
            )
            views.append(view)
        sent = sums.groups[1, layer].sum(axis=(0, 1)) * (top_k or 1)
        tokens = np.rint(sent).astype(np.int64)
        too_few = tokens < TOKENS_PER_LABEL * len(labels)
        notes = tuple(_warnings(tokens, too_few, labels, counts))
        layers.append(LayerMeasures(layer, labels, label_counts, tokens, too_few, tuple(views), notes))
    return layers


def measure_matrix(
    A: Array, layer: int, label_probs: ArrayLike | None, groups: Iterable[str]
) -> LayerMeasures:
    """What a bare activation matrix `[R, M]` says: by gate mass, no interval, no chance."""
    num_rules, num_modules = A.shape
    probs = _label_probs(label_probs, np.ones(num_rules, np.int64))
    values = bare_estimates(measure_all(A, rule_probs=probs, groups=groups))
    unknown = np.full(num_modules, np.nan)
    top_label = (probs[:, np.newaxis] * A).argmax(axis=0)
    view = View(BY[0], A, probs @ A, values, top_label, _top_share(A, probs), unknown)
    note = "An activation matrix alone: no intervals, no chance level, no hard assignment, no token counts."
    return LayerMeasures(layer, np.arange(num_rules), None, None, None, (view,), (note,))


def _label_probs(label_probs: ArrayLike | None, counts: Ints) -> Array:
    if label_probs is None:
        return counts / counts.sum()
    if isinstance(label_probs, str):
        if label_probs != "uniform":
            raise ValueError(
                f"label_probs={label_probs!r}; expected 'uniform', None (as observed) or numbers."
            )
        return check_rule_probs(None, len(counts))
    label_probs = as_numbers(label_probs, "label_probs")
    if np.size(label_probs) != len(counts):
        raise ValueError(
            f"label_probs has {np.size(label_probs)} entries; expected one for each of {len(counts)} labels "
            "that occur."
        )
    return check_rule_probs(label_probs, len(counts))


def _top_share(A: Array, probs: Array) -> Array:
    """max_r p(r | m), `[..., M]`, of matrices `[..., R, M]`; NaN where a module is never active."""
    joint = probs[:, np.newaxis] * A
    use = joint.sum(axis=-2)
    return np.divide(joint.max(axis=-2), use, out=np.full_like(use, np.nan), where=use > 0)


def _mean_over_defined(values: Array) -> Array:
    """The mean over the first axis of what is not NaN; NaN if nothing is."""
    defined = ~np.isnan(values)
    count = defined.sum(axis=0)
    total = np.where(defined, values, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _warnings(tokens: Ints, too_few: Array, labels: Ints, counts: Ints) -> Iterator[str]:
    need = TOKENS_PER_LABEL * len(labels)
    if too_few.any():
        yield (
            f"{too_few.sum()} of {len(tokens)} modules have fewer than {need} tokens ({TOKENS_PER_LABEL} for "
            f"each of {len(labels)} labels): what they specialise in cannot be judged. "
            f"{_few(np.flatnonzero(too_few))}"
        )
    need = TOKENS_PER_LABEL * len(tokens)
    rare = labels[counts.sum(axis=0) < need]
    if rare.size:
        yield (
            f"{rare.size} of {len(labels)} labels have fewer than {need} tokens ({TOKENS_PER_LABEL} for each "
            f"of {len(tokens)} modules): their rows of the activation matrix are noisy. {_few(rare)}"
        )
    alone = labels[(counts > 0).sum(axis=0) == 1]
    if alone.size:
        yield (
            f"{alone.size} of {len(labels)} labels are in one group of tokens alone: the intervals take "
            f"their rows as known. {_few(alone)}"
        )


def _few(numbers: Ints) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"They are {shown}, ..." if len(numbers) > 10 else f"They are {shown}."
