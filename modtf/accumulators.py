"""What an evaluation accumulates on the device, as Keras metrics: sums per member, not means over all."""

import keras
from keras import ops

from modtf.losses import ELEMENTWISE, misclassified


class PerformanceSums(keras.metrics.Metric):
    """Sums of loss and error per member."""

    def __init__(self, setting: str, num_members: int, population: bool):
        super().__init__(name="performance")
        self.setting, self.population = setting, population
        self.loss = self.add_variable([num_members], "zeros", name="loss_sum")
        self.error = self.add_variable([num_members], "zeros", name="error_sum")
        self.batches = self.add_variable([], "zeros", name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        def per_member(values):
            others = [axis for axis in range(len(values.shape)) if not (self.population and axis == 1)]
            return ops.cast(ops.reshape(ops.mean(values, axis=others), [-1]), self.loss.dtype)

        self.loss.assign_add(per_member(ELEMENTWISE[self.setting](y_true, y_pred)))
        if self.setting == "classification":
            self.error.assign_add(per_member(misclassified(y_true, y_pred)))
        self.batches.assign_add(1.0)

    def result(self):
        return ops.mean(self.loss) / ops.maximum(self.batches, 1.0)


class ActivationSums(keras.metrics.Metric):
    """Sums of activation per member and row; only these leave the device."""

    def __init__(self, num_members: int, rows: int, num_modules: int, population: bool):
        super().__init__(name="activation")
        self.population, self.rows, self.num_modules = population, rows, num_modules
        self.sums = self.add_variable([num_members, rows, num_modules], "zeros", name="sums")
        self.counts = self.add_variable([num_members, rows], "zeros", name="counts")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Row of every token int [B, (P,) (N)], activation [B, (P,) (N,) M]."""
        row = y_true if self.population else y_true[:, None]
        activation = y_pred if self.population else y_pred[:, None]
        members = self.sums.shape[0]
        row = ops.reshape(ops.moveaxis(row, 1, 0), [members, -1])
        activation = ops.reshape(ops.moveaxis(activation, 1, 0), [members, -1, self.num_modules])
        one_hot = ops.cast(row[:, None] == ops.arange(self.rows, dtype=row.dtype)[:, None], activation.dtype)
        self.sums.assign_add(ops.cast(ops.matmul(one_hot, activation), self.sums.dtype))
        self.counts.assign_add(ops.cast(ops.sum(one_hot, axis=2), self.counts.dtype))

    def result(self):
        return ops.sum(self.counts)


class Forward(keras.Model):
    """The model under evaluation, so that compiling for evaluation leaves its own compilation alone."""

    def __init__(self, model: keras.Model):
        super().__init__(name="evaluation")
        self.model = model
        self.built = True

    def call(self, features):
        outputs = self.model(features)
        return {"target": outputs["target"], "activation": outputs["activation"]}
