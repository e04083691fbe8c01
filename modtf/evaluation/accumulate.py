"""Feeds batches through a model into sums on the device, per member: only they leave it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import keras
import numpy as np
from etils import epy
from keras import ops

from modtf.base.cache import Cache
from modtf.evaluation.batches import Source
from modtf.evaluation.elementwise import error_of, loss_of
from modtf.evaluation.programs import programs_of, with_xla
from modtf.tasks.observed import Place
from modtf.tasks.population import Population
from modtf.xla.switches import with_64_bits

with epy.lazy_imports():  # a process needs one of them
    import jax
    import tensorflow as tf

STEPS_AT_ONCE = 20  # hides Python's work between batches, yet allows interruption
State = dict[str, dict[str, np.ndarray]]  # name of a metric -> name of a variable -> its value


class Outputs(keras.Model):
    """Selected outputs of a model, several per name, compiled separately: other outputs are not computed."""

    def __init__(self, model: keras.Model, parts: Mapping[str, Sequence[str]]):
        super().__init__(name="evaluated")
        self.model, self.parts = model, {name: list(names) for name, names in parts.items()}
        self.built = True
        self.compile(jit_compile=with_xla(model, model.jit_compile if model.compiled else "auto"))

    def call(self, features):
        outputs = self.model(features)
        return {name: [outputs[part] for part in parts] for name, parts in self.parts.items()}


class Accumulator:
    """Feeds batches through a model into metrics by name, compiled once per form of batches. Each metric
    receives its outputs, `parts`, and what its attribute `reads` names: "target", "inputs", "rule",
    "activation" or several of them."""

    def __init__(
        self,
        model: keras.Model,
        metrics: Mapping[str, keras.metrics.Metric],
        parts: Mapping[str, Sequence[str]],
    ):
        self.model, self.metrics, self.parts = model, dict(metrics), parts
        self._readers = Cache()

    @cached_property
    def _outputs(self) -> Outputs:
        return Outputs(self.model, self.parts)  # created at the first use, after the model is compiled

    def run(self, source: Source, steps: int, number: int = 0, of: int = 1) -> Iterator[State]:
        """Yield the metrics after `steps` batches of each of a source's datasets: see `Source.share`."""
        with programs_of(self._outputs), source.share(steps, number, of) as iterator:
            read = self._readers.get_or_make(source.program, lambda: self._reader(source.make))
            for _ in range(source.count):
                for metric in self.metrics.values():
                    metric.reset_state()
                for begin in range(0, steps, STEPS_AT_ONCE):
                    read(iterator, min(STEPS_AT_ONCE, steps - begin))
                yield {
                    name: {v.name: np.array(ops.convert_to_numpy(v)) for v in metric.variables}
                    for name, metric in self.metrics.items()
                }

    def _reader(self, make: Callable[[Any], Any] | None) -> Callable[[Any, int], None]:
        """Return a function that reads batches from an iterator."""
        if keras.backend.backend() == "jax":
            return self._jax_reader(make)
        outputs = self._outputs

        def step(element: Any) -> None:
            features, targets = element if make is None else make(element)
            found = self._received(outputs(features, training=False), {**features, **targets})
            for name, arguments in found.items():
                self.metrics[name].update_state(*arguments)

        compiled = tf.function(step, jit_compile=outputs.jit_compile, autograph=False)

        @tf.function(autograph=False)
        def read(iterator: Any, steps: tf.Tensor) -> None:
            def one(done: tf.Tensor) -> tf.Tensor:
                compiled(next(iterator))
                return done + 1

            tf.while_loop(lambda done: done < steps, one, [tf.constant(0)], parallel_iterations=1)

        return lambda iterator, steps: read(iterator, tf.constant(steps))

    def _jax_reader(self, make: Callable[[Any], Any] | None) -> Callable[[Any, int], None]:
        outputs = self._outputs
        compiled: Any = jax.jit if outputs.jit_compile else lambda function: function
        make = compiled(make) if make else partial(keras.tree.map_structure, np.asarray)

        @compiled
        def add(sums: Any, weights: Any, features: Any, targets: Any) -> Any:
            with keras.StatelessScope(zip(outputs.variables, weights, strict=True)):
                parts = outputs(features, training=False)
            found = self._received(parts, {**features, **targets})
            return {n: self.metrics[n].stateless_update_state(sums[n], *found[n]) for n in sums}

        def read(iterator: Any, steps: int) -> None:
            weights = [variable.value for variable in outputs.variables]
            sums = {name: [v.value for v in metric.variables] for name, metric in self.metrics.items()}
            for _ in range(steps):
                with with_64_bits():
                    batch = make(next(iterator))
                sums = add(sums, weights, *batch)
            for name, metric in self.metrics.items():
                for variable, value in zip(metric.variables, sums[name], strict=True):
                    variable.assign(value)

        return read

    def _received(self, outputs: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Return the arguments of each metric's `update_state`."""
        arguments: dict[str, tuple[Any, ...]] = {}
        for name, parts in outputs.items():
            reads = getattr(self.metrics[name], "reads", "target")
            read = known[reads] if isinstance(reads, str) else tuple(known[one] for one in reads)
            arguments[name] = (read, *parts)
        return arguments


class PerformanceSums(keras.metrics.Metric):
    """Sums of loss and, if the setting defines one, error per member; also by rule if rules are unequally
    frequent."""

    reads: ClassVar[tuple[str, ...]] = ("target", "rule")

    def __init__(self, population: Population):
        super().__init__(name="performance")
        setting, self.has_axis = population.task.setting, population.has_axis
        known = {"loss": loss_of(setting), "error": error_of(setting)}
        self.measures = {name: function for name, function in known.items() if function is not None}
        members = [len(population)]
        self.sums = {name: self.add_variable(members, "zeros", name=name) for name in self.measures}
        self.batches = self.add_variable([], "zeros", name="batches")
        self.num_rules = population.task.num_rules
        if population.family.rule_probs(population.task) is not None:
            by_rule, zeros = [*members, self.num_rules], "zeros"
            self.by_rule = {
                name: self.add_variable(by_rule, zeros, name=f"{name}_by_rule") for name in self.sums
            }
            self.tokens = self.add_variable(by_rule, zeros, name="tokens_by_rule")

    def update_state(self, target_and_rule, y_pred, sample_weight=None):
        y_true, rule = target_and_rule
        y_pred = ops.cast(y_pred, self.batches.dtype)  # a user's model may compute in half precision
        for name, total in self.sums.items():
            values = self.measures[name](y_true, y_pred)
            others = [axis for axis in range(len(values.shape)) if not (self.has_axis and axis == 1)]
            total.assign_add(ops.reshape(ops.mean(values, axis=others), [-1]))
            if hasattr(self, "tokens"):
                self.by_rule[name].assign_add(self._sum_by_rule(values, rule))
        if hasattr(self, "tokens"):
            self.tokens.assign_add(self._sum_by_rule(ops.ones_like(rule), rule))
        self.batches.assign_add(1.0)

    def _sum_by_rule(self, values, rule):
        """Return the sums of values [B, (P,) (N,) ...] over the tokens of each rule, [P, R]."""
        while len(values.shape) > len(rule.shape):
            values = ops.mean(values, axis=-1)
        one_hot = ops.one_hot(rule, self.num_rules, dtype=self.tokens.dtype)
        sums = ops.cast(values, self.tokens.dtype)[..., None] * one_hot
        others = [axis for axis in range(len(rule.shape)) if not (self.has_axis and axis == 1)]
        return ops.reshape(ops.sum(sums, axis=others), [-1, self.num_rules])


class ActivationSums(keras.metrics.Metric):
    """Sums of activation and of a router's `penalty`, per member. Activation is summed by the token's rule,
    and by the batch's draw: batches follow the rule distributions in turn."""

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

    def update_state(self, row, *activation_and_scores):
        """Add a batch: rule + R * draw of every token, int [B, (P,) (N)], with one draw per batch; activation
        of the place's tokens [B, (P,) (N,) M]; their scores, if the penalty needs them."""
        row, *outputs = (x if self.has_axis else x[:, None] for x in (row, *activation_and_scores))
        activation, members = outputs[0], self.by_rule.shape[0]
        if self._penalty is not None:
            last = len(activation.shape) - 1
            order = [1, last, *range(2, last), 0]
            outputs = [ops.reshape(ops.transpose(x, order), [members, self.num_modules, -1]) for x in outputs]
            self.penalty.assign_add(ops.cast(self._penalty(*outputs), self.penalty.dtype))
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
