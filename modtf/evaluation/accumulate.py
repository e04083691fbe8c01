"""Feeds batches through a model into a metric."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import keras
from keras import ops

from modtf.evaluation.programs import programs_of

STEPS_PER_EXECUTION = 20  # enough to hide Keras's work between batches


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
        self._test_functions: dict[Any, Any] = {}

    @cached_property
    def _forward(self) -> Output:
        # only now: by its first use the model is compiled
        forward = Output(self.model, self.output, self.beside)
        forward.compile(
            metrics={self.output: self.metric},
            jit_compile=self.model.jit_compile if self.model.compiled else "auto",
            steps_per_execution=STEPS_PER_EXECUTION,
        )
        return forward

    def run(
        self, dataset: Any, make: Callable[[Any], Any] | None = None, shared: tuple | None = None
    ) -> None:
        """Resets the metric and feeds it a finite dataset of (features, {output: y}).

        Args:
            dataset: whose batches are read, or made of its elements.
            make, shared: of `device_batches`, where they are made.
        """
        # Keras keeps one test function and would retrace it with an unknown length, which XLA cannot unroll
        shape = shared or tuple(dataset.element_spec[1][self.output].shape)
        self._forward.test_function, self._forward.make = self._test_functions.get(shape), make
        with programs_of(self._forward):
            self._forward.evaluate(dataset, verbose=0)
        self._test_functions[shape] = self._forward.test_function
