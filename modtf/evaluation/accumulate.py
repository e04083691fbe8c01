"""Feeds batches through a model into a metric."""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from modtf.evaluation.programs import programs_of
from modtf.evaluation.source import Source

STEPS_AT_ONCE = 20  # enough to hide Python's work between batches, few enough to be interrupted


class Output(keras.Model):
    """One output of a model, so that what the others alone need is not computed; its own compilation.

    Args:
        beside: other outputs of its shape, which follow it in the last axis.
    """

    def __init__(self, model: keras.Model, name: str, beside: Sequence[str] = ()):
        super().__init__(name=f"evaluation_of_{name}")
        self.model, self.output_name, self.beside = model, name, list(beside)
        #: makes a batch of what the dataset gives, where data are made on the device
        self.make: Callable[[Any], Any] | None = None
        self.built = True

    def test_step(self, data):
        return super().test_step(data if self.make is None else self.make(data))

    def call(self, features):
        outputs = self.model(features)
        output = outputs[self.output_name]
        if self.beside:
            output = ops.concatenate([output, *(outputs[name] for name in self.beside)], axis=-1)
        return {self.output_name: output}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Keras asks for one; the metrics are all that counts here."""
        return ops.zeros(())


class Accumulator:
    """Feeds batches through a model into a metric, compiled once per length of sequences.

    Args:
        model: from features to a dict.
        output: which of its outputs the metric reads.
        metric: `PerformanceSums` or `ActivationSums`.
        beside: see `Output`.
    """

    def __init__(
        self, model: keras.Model, output: str, metric: keras.metrics.Metric, beside: Sequence[str] = ()
    ):
        self.model, self.output, self.metric, self.beside = model, output, metric, beside
        self._readers: dict[Hashable, Callable[[Any, Any], Any]] = {}

    @cached_property
    def _forward(self) -> Output:
        # only now: by its first use the model is compiled
        forward = Output(self.model, self.output, self.beside)
        forward.compile(
            metrics={self.output: self.metric},
            jit_compile=self.model.jit_compile if self.model.compiled else "auto",
        )
        return forward

    def run(self, source: Source, steps: int) -> None:
        """Resets the metric and feeds it the first `steps` batches of a source."""
        self._forward.make = source.make
        with programs_of(self._forward):
            if keras.backend.backend() != "tensorflow":
                self._forward.evaluate(source.dataset.take(steps), verbose=0)
                return
            if source.program not in self._readers:
                self._readers[source.program] = self._reader()
            reader = self._readers[source.program]
            self.metric.reset_state()
            with source.first(steps) as iterator:
                for begin in range(0, steps, STEPS_AT_ONCE):
                    reader(iterator, tf.constant(min(STEPS_AT_ONCE, steps - begin)))

    def _reader(self) -> Callable[[Any, Any], Any]:
        """Reads so many batches from an iterator. Keras's own starts two iterators for each evaluation."""
        forward = self._forward

        @tf.function(jit_compile=forward.jit_compile, autograph=False)
        def step(element: Any) -> None:
            forward.test_step(element)

        @tf.function(autograph=False)
        def read(iterator: Any, steps: tf.Tensor) -> None:
            def one(done: tf.Tensor) -> tf.Tensor:
                step(next(iterator))
                return done + 1

            tf.while_loop(lambda done: done < steps, one, [tf.constant(0)], parallel_iterations=1)

        return read
