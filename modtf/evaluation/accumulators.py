"""What an evaluation accumulates on the device, as Keras metrics: sums per member, not means over all."""

from typing import Any

import keras
from keras import ops

from modtf.training.loss import ELEMENTWISE, misclassified
from modtf.evaluation.retracing import no_retracing_advice

STEPS_PER_EXECUTION = 20  # enough to hide Keras's work between batches


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


class Output(keras.Model):
    """One output of a model, so that what the others alone need is not computed; its own compilation."""

    def __init__(self, model: keras.Model, name: str):
        super().__init__(name=f"evaluation_of_{name}")
        self.model, self.output_name = model, name
        self.built = True

    def call(self, features):
        return {self.output_name: self.model(features)[self.output_name]}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Keras asks for one; the metrics are all that counts here."""
        return ops.zeros(())


class Accumulator:
    """Feeds batches through a model into a metric.

    Args:
        model: from features to a dict.
        output: which of its outputs the metric reads.
        metric: `PerformanceSums` or `ActivationSums`.
    """

    def __init__(self, model: keras.Model, output: str, metric: keras.metrics.Metric):
        self.output, self.metric = output, metric
        self._forward = Output(model, output)
        self._forward.compile(
            metrics={output: metric},
            jit_compile=model.jit_compile if model.compiled else "auto",
            steps_per_execution=STEPS_PER_EXECUTION,
        )
        self._test_functions: dict[Any, Any] = {}

    def run(self, dataset: Any) -> None:
        """Resets the metric and feeds it a finite dataset of (features, y)."""
        # Keras keeps one test function and would retrace it with an unknown length, which XLA cannot unroll
        shape = tuple(dataset.element_spec[1].shape)
        self._forward.test_function = self._test_functions.get(shape)
        with no_retracing_advice():
            self._forward.evaluate(dataset.map(lambda features, y: (features, {self.output: y})), verbose=0)
        self._test_functions[shape] = self._forward.test_function
