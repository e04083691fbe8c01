"""Leaves the optimisation of compiled programs to XLA alone."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

OPTION = "disable_meta_optimizer"


@contextlib.contextmanager
def xla_alone(model: keras.Model) -> Iterator[None]:
    """While it lasts, TensorFlow does not optimise the graph of a model that XLA compiles.

    XLA optimises it anyway, and TensorFlow's own passes over a training program cost as long as tracing it:
    a quarter of what a short run takes. A model without XLA is left to TensorFlow.
    """
    if not model.jit_compile:
        yield
        return
    options: dict[str, Any] = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({OPTION: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({OPTION: options.get(OPTION, False)})
