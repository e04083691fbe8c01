"""How invariant the units before the classifier are: to single corruptions (I_e), and to a composition (I_c)."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from modtf.families.orders import Order, name_of, orders

ELEMENTAL, COMPOSED = "invariance_elemental", "invariance_composed"
SMALLEST = 1e-6  # activation of a unit that is said to be active


class ClassActivation(keras.metrics.Metric):
    """Sums of features [C, F] by class, how many there were [C], and the largest feature [F]."""

    def __init__(self, task: Any):
        super().__init__(name="class_activation")
        self.classes, self.built_for = task.family.num_classes(task), 0

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Classes int [B, N]; features [B, N, F]."""
        features = ops.reshape(y_pred, [-1, y_pred.shape[-1]])
        if not self.built_for:
            self.built_for = features.shape[-1]
            with ops.device_scope("cpu:0") if False else _nothing():
                self.sums = self.add_variable([self.classes, self.built_for], "zeros", name="sums")
                self.counts = self.add_variable([self.classes], "zeros", name="counts")
                self.largest = self.add_variable([self.built_for], "zeros", name="largest")
        one_hot = ops.one_hot(ops.reshape(y_true, [-1]), self.classes, dtype=features.dtype)
        self.sums.assign_add(ops.matmul(ops.transpose(one_hot), features))
        self.counts.assign_add(ops.sum(one_hot, axis=0))
        self.largest.assign(ops.maximum(self.largest, ops.max(features, axis=0)))
