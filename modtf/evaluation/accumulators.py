"""What an evaluation accumulates on the device, as Keras metrics: sums per member, not means over all."""

from collections.abc import Callable
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from modtf.evaluation.elementwise import error_of, loss_of
from modtf.observed import Place
from modtf.population import Population


class PerformanceSums(keras.metrics.Metric):
    """Sums of loss and, if the setting has one, error per member."""

    reads: ClassVar[str] = "target"

    def __init__(self, population: Population):
        super().__init__(name="performance")
        setting, self.has_axis = population.task.setting, population.has_axis
        self._measures = {"loss": loss_of(setting), "error": error_of(setting)}
        self.sums = {
            name: self.add_variable([len(population)], "zeros", name=name)
            for name, function in self._measures.items()
            if function is not None
        }
        self.batches = self.add_variable([], "zeros", name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = ops.cast(y_pred, self.batches.dtype)  # a user's model may compute in half precision
        for name, total in self.sums.items():
            values = self._measures[name](y_true, y_pred)
            others = [axis for axis in range(len(values.shape)) if not (self.has_axis and axis == 1)]
            total.assign_add(ops.reshape(ops.mean(values, axis=others), [-1]))
        self.batches.assign_add(1.0)


class ActivationSums(keras.metrics.Metric):
    """Sums of activation per member, by the token's rule and the batch's draw; only they leave the device.

    Args:
        population: of P members.
        place: where; R rows.
        num_modules: M.
        draws: K, the most rule distributions that batches follow in turn.
        penalty: a router's, from activation [P, M, T], and the scores where they follow it in the last axis,
            to [P].
    """

    reads: ClassVar[str] = "activation"

    def __init__(
        self,
        population: Population,
        place: Place,
        num_modules: int,
        draws: int = 1,
        penalty: Callable[..., Any] | None = None,
    ):
        super().__init__(name=place.output)
        self.has_axis, self.num_modules, self.draws = population.has_axis, num_modules, draws
        self.is_sequence = population.task.is_sequence
        self.place, self.num_rules, self._penalty = place, population.task.num_rules, penalty
        self.rows = np.array(place.rows(self.num_rules), np.int32)
        members, rules, zeros = len(population), place.num_rules, "zeros"
        self.by_rule = self.add_variable([members, rules, num_modules], zeros, name="by_rule")
        self.by_draw = self.add_variable([members, draws, num_modules], zeros, name="by_draw")
        self.rules = self.add_variable([members, draws, rules], zeros, name="rules_of_draw")
        self.penalty = self.add_variable([members], zeros, name="penalty")
        self.batches = self.add_variable([], zeros, name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Rule + R * draw of every token int [B, (P,) (N)], one draw a batch; activation of the place's
        tokens [B, (P,) (N,) M], or with scores [B, (P,) (N,) 2M]."""
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
        draw = ops.reshape(row, [-1])[0] // self.num_rules == ops.arange(self.draws, dtype=row.dtype)
        tokens = self.place.tokens
        if tokens is not None and self.is_sequence:
            row = row[..., tokens] if isinstance(tokens, slice) else ops.take(row, np.array(tokens), axis=-1)
        row = ops.reshape(ops.moveaxis(row, 1, 0), [members, -1]) % self.num_rules
        if self.place.rules is not None:
            row = ops.take(ops.convert_to_tensor(self.rows), row)
        activation = ops.reshape(ops.moveaxis(activation, 1, 0), [members, -1, self.num_modules])
        rules = ops.arange(self.by_rule.shape[1], dtype=row.dtype)[:, None]
        one_hot = ops.cast(row[:, None] == rules, activation.dtype)
        by_rule = ops.matmul(one_hot, activation)
        draw = ops.cast(draw, self.by_draw.dtype)[None, :, None]
        self.by_rule.assign_add(by_rule)
        self.by_draw.assign_add(draw * ops.sum(by_rule, axis=1)[:, None])
        self.rules.assign_add(draw * ops.sum(one_hot, axis=2)[:, None])
        self.batches.assign_add(1.0)
