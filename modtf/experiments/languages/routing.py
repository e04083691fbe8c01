"""Counts of experts by language and by word, and the information that experts carry about both."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from modtf.experiments.languages.family import ACTIVE, LANGUAGE, LANGUAGE_CHANCE, LOAD, WORD, WORD_CHANCE
from modtf.tasks.population import Population

DRAWS = 4  # of labels that belong to other tokens
Array = NDArray[np.float64]


class RoutingCounts(keras.metrics.Metric):
    """Sums of p by language [P, 1 + DRAWS, R, M] and by word [P, 1 + DRAWS, V, M], and of the experts with
    p > 0 by token [P].

    Index 0 counts the token's own label. The others count the label of another token: the language of another
    document, or another word of the same document. They show how much information chance alone gives.
    """

    reads = ("rule", "inputs")

    def __init__(self, population: Population, num_modules: int):
        super().__init__(name="routing")
        self.has_axis, task = population.has_axis, population.task
        self.sizes = {"language": task.num_rules, "word": task.vocabulary}
        shape = [len(population), 1 + DRAWS]
        self.sums = {
            name: self.add_variable([*shape, size, num_modules], "zeros", name=name)
            for name, size in self.sizes.items()
        }
        self.active = self.add_variable(shape[:1], "zeros", name="active")

    def update_state(self, labels, activation, sample_weight=None):
        """Add languages and words [B, (P,) N] and activation [B, (P,) N, M] of a batch."""
        if not self.has_axis:
            labels, activation = [x[:, None] for x in labels], activation[:, None]
        activation = ops.transpose(ops.cast(activation, self.active.dtype), [1, 0, 2, 3])  # [P, B, N, M]
        members, count, length, modules = activation.shape
        flat = ops.reshape(activation, [members, -1, modules])
        self.active.assign_add(ops.sum(ops.cast(flat > 0, flat.dtype), axis=(1, 2)))
        for (name, size), values, axis in zip(self.sizes.items(), labels, (1, 2), strict=True):
            values = ops.transpose(values, [1, 0, 2])
            step = max(1, (count or length, length)[axis - 1] // (DRAWS + 1))
            every = [ops.roll(values, draw * step, axis=axis) for draw in range(1 + DRAWS)]
            every = ops.reshape(ops.stack(every, axis=1), [members, 1 + DRAWS, 1, -1])
            one_hot = ops.cast(every == ops.arange(size, dtype=every.dtype)[:, None], flat.dtype)
            self.sums[name].assign_add(ops.matmul(one_hot, flat[:, None]))


def bits(counts: Array) -> Array:
    """Return the mutual information in bits of labels and experts, from counts [..., L, M]."""
    joint = counts / counts.sum(axis=(-2, -1), keepdims=True)
    apart = joint.sum(axis=-1, keepdims=True) * joint.sum(axis=-2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log2(joint / apart), 0.0)
    return terms.sum(axis=(-2, -1))


def _routed(counts: Array) -> Array:
    """Return 1 for the routed experts and 0 for a shared one, [P, 1, 1, M], from counts [P, R, M].

    A shared expert has the same weight for every token, which is not 0. If all have, all count as routed.
    """
    size = counts.sum(axis=2, keepdims=True)  # a language may be missing
    p = counts / np.maximum(size, 1e-9)
    low, high = np.where(size > 0, p, np.inf).min(axis=1), p.max(axis=1)
    routed = (high - low > 1e-4) | (high < 1e-4)
    return np.where(routed.any(axis=1, keepdims=True), routed, True)[:, None, None].astype(float)


def rows_of(place: str, states: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str, str], Array]:
    """Return the measures of a layer under every condition, values [P], from the sums of `RoutingCounts`."""
    rows: dict[tuple[str, str, str], Array] = {}
    for condition, state in states.items():
        language, word = (np.asarray(state[name], np.float64) for name in ("language", "word"))
        active = np.asarray(state["active"]) / language[:, 0].sum(axis=(1, 2))
        routed = _routed(language[:, 0])
        language, word = language * routed, word * routed
        load = language[:, 0].sum(axis=1)  # [P, M]
        number = routed.sum(axis=(1, 2, 3))
        mean = load.sum(axis=1) / number
        values = {
            LANGUAGE: bits(language[:, 0]),
            LANGUAGE_CHANCE: bits(language[:, 1:]).mean(axis=1),
            WORD: bits(word[:, 0]),
            WORD_CHANCE: bits(word[:, 1:]).mean(axis=1),
            LOAD: np.sqrt(np.maximum((load**2).sum(axis=1) / number - mean**2, 0)) / mean,
            ACTIVE: active,
        }
        rows |= {(name, condition, place): value for name, value in values.items()}
    return rows


rows_of_layer1, rows_of_layer2 = (partial(rows_of, place) for place in ("layer1", "layer2"))
