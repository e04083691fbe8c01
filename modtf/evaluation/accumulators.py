"""What an evaluation accumulates on the device, as Keras metrics: sums per member, not means over all."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from modtf.evaluation.elementwise import error_of, loss_of
from modtf.population import Population


class PerformanceSums(keras.metrics.Metric):
    """Sums of loss and error per member."""

    def __init__(self, population: Population):
        super().__init__(name="performance")
        setting, self.has_axis = population.task.setting, population.has_axis
        self.loss_of, self.error_of = loss_of(setting), error_of(setting)
        self.loss = self.add_variable([len(population)], "zeros", name="loss_sum")
        self.error = self.add_variable([len(population)], "zeros", name="error_sum")
        self.batches = self.add_variable([], "zeros", name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = ops.cast(y_pred, self.loss.dtype)  # a user's model may compute in half precision

        def per_member(values):
            others = [axis for axis in range(len(values.shape)) if not (self.has_axis and axis == 1)]
            return ops.reshape(ops.mean(values, axis=others), [-1])

        self.loss.assign_add(per_member(self.loss_of(y_true, y_pred)))
        if self.error_of is not None:
            self.error.assign_add(per_member(self.error_of(y_true, y_pred)))
        self.batches.assign_add(1.0)

    def result(self):
        return ops.mean(self.loss) / ops.maximum(self.batches, 1.0)


class ActivationSums(keras.metrics.Metric):
    """Sums of activation per member, by the token's rule and the batch's draw; only they leave the device.

    Args:
        population: of P members.
        num_modules: M.
        draws: K, the most rule distributions that batches follow in turn.
        penalty: a router's, from activation [P, M, T], and the scores where they follow it in the last axis,
            to [P].
    """

    def __init__(
        self, population: Population, num_modules: int, draws: int, penalty: Callable[..., Any] | None
    ):
        super().__init__(name="activation")
        self.has_axis, self.num_modules, self.draws = population.has_axis, num_modules, draws
        self.num_rules, self._penalty = population.task.num_rules, penalty
        members, zeros = len(population), "zeros"
        self.by_rule = self.add_variable([members, self.num_rules, num_modules], zeros, name="by_rule")
        self.by_draw = self.add_variable([members, draws, num_modules], zeros, name="by_draw")
        self.rules = self.add_variable([members, draws, self.num_rules], zeros, name="rules_of_draw")
        self.penalty = self.add_variable([members], zeros, name="penalty_sum")
        self.batches = self.add_variable([], zeros, name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Rule + R * draw of every token int [B, (P,) (N)], one draw a batch; activation [B, (P,) (N,) M], or
        with scores [B, (P,) (N,) 2M]."""
        row = y_true if self.has_axis else y_true[:, None]
        activation = y_pred if self.has_axis else y_pred[:, None]
        members = self.by_rule.shape[0]
        if self._penalty is not None:
            order = [1, len(activation.shape) - 1, *range(2, len(activation.shape) - 1), 0]
            width = activation.shape[-1]
            by_module = ops.reshape(ops.transpose(activation, order), [members, width, -1])
            parts = [by_module[:, n : n + self.num_modules] for n in range(0, width, self.num_modules)]
            self.penalty.assign_add(ops.cast(self._penalty(*parts), self.penalty.dtype))
            activation = activation[..., : self.num_modules]
        activation = ops.cast(activation, self.by_rule.dtype)  # half precision would round the sums
        row = ops.reshape(ops.moveaxis(row, 1, 0), [members, -1])
        activation = ops.reshape(ops.moveaxis(activation, 1, 0), [members, -1, self.num_modules])
        rules = ops.arange(self.num_rules, dtype=row.dtype)[:, None]
        one_hot = ops.cast((row % self.num_rules)[:, None] == rules, activation.dtype)
        by_rule = ops.matmul(one_hot, activation)
        draw = row[0, 0] // self.num_rules == ops.arange(self.draws, dtype=row.dtype)
        draw = ops.cast(draw, self.by_draw.dtype)[None, :, None]
        self.by_rule.assign_add(by_rule)
        self.by_draw.assign_add(draw * ops.sum(by_rule, axis=1)[:, None])
        self.rules.assign_add(draw * ops.sum(one_hot, axis=2)[:, None])
        self.batches.assign_add(1.0)

    def result(self):
        return ops.sum(self.rules)
