"""How invariant units before the classifier are: to single corruptions (I_e), and to compositions (I_c)."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from modtf.experiments.corruptions import COMPOSED, ELEMENTAL
from modtf.families.orders import Order, name_of, orders

SMALLEST = 1e-6  # activation of a unit that is said to be active


class ClassActivation(keras.metrics.Metric):
    """Sums of features [C, F] by class, how many there were [C], and the largest feature [F]."""

    def __init__(self, task: Any, width: int):
        super().__init__(name="class_activation")
        self.classes = task.family.num_classes(task)
        self.sums = self.add_variable([self.classes, width], "zeros", name="sums")
        self.counts = self.add_variable([self.classes], "zeros", name="counts")
        self.largest = self.add_variable([width], "zeros", name="largest")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Classes int [B, N]; features [B, N, F]."""
        features = ops.cast(ops.reshape(y_pred, [-1, y_pred.shape[-1]]), self.sums.dtype)
        one_hot = ops.one_hot(ops.reshape(y_true, [-1]), self.classes, dtype=features.dtype)
        self.sums.assign_add(ops.matmul(ops.transpose(one_hot), features))
        self.counts.assign_add(ops.sum(one_hot, axis=0))
        self.largest.assign(ops.maximum(self.largest, ops.max(features, axis=0)))


def invariance_scores(grid: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """I_e and I_c of every unit, NaN for one that never changes.

    Args:
        grid: mean activation [E + 1, C, F] under the identity and E - 1 corruptions, then under their
            composition; min-max normalised here, over the whole grid of a unit.

    Example:
        >>> invariance_scores(table_3[..., None])  # doctest: +SKIP
        (array([0.955]), array([0.683]))
    """
    low, high = grid.min(axis=(0, 1)), grid.max(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        a = np.where(high > low, (grid - low) / (high - low), np.nan)
    best = np.argmax(np.nan_to_num(a[:-1]).sum(axis=0), axis=0)  # j*, [F]
    chosen = np.take_along_axis(a, best[None, None], axis=1)[:, 0]  # [E + 1, F]
    elemental = 1 - (chosen[:-1].max(axis=0) - chosen[:-1].min(axis=0))
    return elemental, 1 - np.abs(chosen[:-1] - chosen[-1]).min(axis=0)


def invariance_rows(found: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Medians over units of both scores, of every composition of which all parts were measured.

    Args:
        found: what `ClassActivation` holds after each condition, by name.
    """
    named = {name_of(order): order for order in orders()}
    present = {name: found[name] for name in named if name in found}
    if not present:
        return {}
    largest = np.max([state["largest"] for state in present.values()], axis=0)
    active = largest > SMALLEST
    means = {
        name: (state["sums"] / np.maximum(state["counts"], 1)[:, None])[:, active] / largest[active]
        for name, state in present.items()
    }
    return dict(_rows(means, named)) if active.any() else {}


def _rows(
    means: Mapping[str, NDArray[np.float64]], named: Mapping[str, Order]
) -> Iterator[tuple[tuple[str, str], float]]:
    for name in means:
        parts = [name_of(()), *(name_of((corruption,)) for corruption in named[name])]
        if len(named[name]) < 2 or not set(parts) <= set(means):
            continue
        scores = invariance_scores(np.stack([means[part] for part in (*parts, name)]))
        for measure, values in zip((ELEMENTAL, COMPOSED), scores, strict=True):
            yield (measure, name), float(np.nanmedian(values)) if np.isfinite(values).any() else np.nan
