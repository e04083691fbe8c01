"""The invariance of units before the classifier: to single corruptions (I_e), and to compositions (I_c)."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from modtf.base.checks import check_choice
from modtf.experiments.corruptions import COMPOSED, ELEMENTAL, FORMULAS, PAPER, invariance_measure
from modtf.experiments.corruptions.conditions import Order, name_of, orders
from modtf.tasks.population import Population

SMALLEST = 1e-6  # the smallest activation of an active unit


class ClassActivation(keras.metrics.Metric):
    """Sums of features [C, F] by class, the number of images per class [C], and the largest feature [F]."""

    def __init__(self, population: Population, width: int):
        super().__init__(name="class_activation")
        self.classes = population.family.num_classes(population.task)
        self.sums = self.add_variable([self.classes, width], "zeros", name="sums")
        self.counts = self.add_variable([self.classes], "zeros", name="counts")
        self.largest = self.add_variable([width], "zeros", name="largest")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Add a batch: classes int [B, N]; features [B, N, F]."""
        features = ops.cast(ops.reshape(y_pred, [-1, y_pred.shape[-1]]), self.sums.dtype)
        one_hot = ops.one_hot(ops.reshape(y_true, [-1]), self.classes, dtype=features.dtype)
        self.sums.assign_add(ops.matmul(ops.transpose(one_hot), features))
        self.counts.assign_add(ops.sum(one_hot, axis=0))
        self.largest.assign(ops.maximum(self.largest, ops.max(features, axis=0)))


def invariance_scores(
    grid: NDArray[np.float64], formula: str = PAPER
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return I_e and I_c of every unit; NaN for a unit that never changes.

    Args:
        grid: mean activation [E + 1, C, F] under the identity and E - 1 corruptions, then under their
            composition.
        formula: "paper" scales the whole grid of a unit to 0..1 (min-max). "released" does as the released
            code: I_e and one side of I_c scale the rows of the identity and the corruptions on their own; the
            composition, on the other side, is scaled over the whole grid. I_e is then never larger.

    Example:
        >>> invariance_scores(table_3[..., None])  # doctest: +SKIP
        (array([0.955]), array([0.683]))
    """
    check_choice("formula", formula, FORMULAS)
    whole = _normalised(grid, grid)
    alone = whole[:-1] if formula == PAPER else _normalised(grid[:-1], grid[:-1])
    best = np.argmax(np.nan_to_num(alone).sum(axis=0), axis=0)[None, None]  # the paper's j*, [1, 1, F]
    single = np.take_along_axis(alone, best, axis=1)[:, 0]  # [E, F]
    composed = np.take_along_axis(whole[-1:], best, axis=1)[:, 0]
    return 1 - (single.max(axis=0) - single.min(axis=0)), 1 - np.abs(single - composed).min(axis=0)


def _normalised(rows: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows with the smallest number of a unit's grid at 0 and its largest at 1."""
    low, high = grid.min(axis=(0, 1)), grid.max(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(high > low, (rows - low) / (high - low), np.nan)


def invariance_rows(states: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the medians over units of both scores, by both formulas, of every fully measured composition;
    NaN if no unit is ever active, as in a network that has collapsed.

    Args:
        states: the state of `ClassActivation` after each condition, by name.
    """
    named = {name_of(order): order for order in orders()}
    present = {name: states[name] for name in named if name in states}
    if not present:
        return {}
    largest = np.max([state["largest"] for state in present.values()], axis=0)
    active = largest > SMALLEST
    means = {
        name: (state["sums"] / np.maximum(state["counts"], 1)[:, None])[:, active] / largest[active]
        for name, state in present.items()
    }
    return dict(_rows(means, named))


def _rows(
    means: Mapping[str, NDArray[np.float64]], named: Mapping[str, Order]
) -> Iterator[tuple[tuple[str, str], float]]:
    for name in means:
        parts = [name_of(()), *(name_of((corruption,)) for corruption in named[name])]
        if len(named[name]) < 2 or not set(parts) <= set(means):
            continue
        grid = np.stack([means[part] for part in (*parts, name)])
        for formula in FORMULAS:
            scores = invariance_scores(grid, formula)
            for measure, values in zip((ELEMENTAL, COMPOSED), scores, strict=True):
                median = float(np.nanmedian(values)) if np.isfinite(values).any() else np.nan
                yield (invariance_measure(measure, formula), name), median
