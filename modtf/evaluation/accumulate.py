"""Feeds batches through a model into metrics."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from modtf.evaluation.programs import programs_of
from modtf.evaluation.source import Source
from modtf.models.kernels.by_device import on_cpu

STEPS_AT_ONCE = 20  # enough to hide Python's work between batches, few enough to be interrupted
State = dict[str, dict[str, np.ndarray]]  # name of a metric -> name of a variable -> its value


class Outputs(keras.Model):
    """Some outputs of a model, so that what the others alone need is not computed; its own compilation.

    Args:
        parts: the model's outputs of which each consists, side by side in the last axis.
    """

    def __init__(self, model: keras.Model, parts: Mapping[str, Sequence[str]]):
        super().__init__(name="evaluated")
        self.model, self.parts = model, {name: list(names) for name, names in parts.items()}
        self.built = True
        jit_compile = model.jit_compile if model.compiled else "auto"
        if getattr(model, "compiled_by_xla", None) is False and on_cpu():
            jit_compile = False
        self.compile(jit_compile=jit_compile)

    def call(self, features):
        outputs = self.model(features)
        found = {name: [outputs[part] for part in parts] for name, parts in self.parts.items()}
        return {name: v[0] if len(v) == 1 else ops.concatenate(v, axis=-1) for name, v in found.items()}


class Accumulator:
    """Feeds batches through a model into metrics, compiled once per form of batches.

    Args:
        model: from features to a dict.
        metrics: by name; each says what it `reads` beside the output: "target", "rule" or "activation".
        parts: of every metric, the outputs of the model that it sees, side by side in the last axis.
    """

    def __init__(
        self,
        model: keras.Model,
        metrics: Mapping[str, keras.metrics.Metric],
        parts: Mapping[str, Sequence[str]],
    ):
        self.model, self.metrics, self.parts = model, dict(metrics), parts
        self._readers: dict[Hashable, Callable[[Any, Any], None]] = {}

    @cached_property
    def _outputs(self) -> Outputs:
        return Outputs(self.model, self.parts)  # only now: by its first use the model is compiled

    def run(self, source: Source, steps: int) -> Iterator[State]:
        """What the metrics hold after `steps` batches of each of a source's datasets."""
        with programs_of(self._outputs), source.first(steps) as iterator:
            if source.program not in self._readers:
                self._readers[source.program] = self._reader(source.make)
            read = self._readers[source.program]
            for _ in range(source.count):
                for metric in self.metrics.values():
                    metric.reset_state()
                for begin in range(0, steps, STEPS_AT_ONCE):
                    read(iterator, min(STEPS_AT_ONCE, steps - begin))
                yield {name: _state(metric) for name, metric in self.metrics.items()}

    def _reader(self, make: Callable[[Any], Any] | None) -> Callable[[Any, int], None]:
        """Reads so many batches from an iterator."""
        outputs = self._outputs

        def step(element: Any) -> None:
            features, given = element if make is None else make(element)
            known = {"rule": features["rule"], **given}
            for name, found in outputs(features, training=False).items():
                metric = self.metrics[name]
                metric.update_state(known[getattr(metric, "reads", "target")], found)

        if keras.backend.backend() != "tensorflow":

            def read_here(iterator: Any, steps: int) -> None:
                for _ in range(steps):
                    step(tf.nest.map_structure(lambda t: ops.convert_to_tensor(t.numpy()), next(iterator)))

            return read_here
        compiled = tf.function(step, jit_compile=outputs.jit_compile, autograph=False)

        @tf.function(autograph=False)
        def read(iterator: Any, steps: tf.Tensor) -> None:
            def one(done: tf.Tensor) -> tf.Tensor:
                compiled(next(iterator))
                return done + 1

            tf.while_loop(lambda done: done < steps, one, [tf.constant(0)], parallel_iterations=1)

        return lambda iterator, steps: read(iterator, tf.constant(steps))


def _state(metric: keras.metrics.Metric) -> dict[str, np.ndarray]:
    return {v.name: np.array(ops.convert_to_numpy(v)) for v in metric.variables}
