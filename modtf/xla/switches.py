"""Switches of TensorFlow: graph passes, retracing advice, the mantissa of products; and whether a program is
being traced, and by which replica of `tf.distribute`.

Seen in TensorFlow 2.21.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import keras

from modtf.checks import check_choice
from modtf.protocol import PRECISIONS

OPTION = "disable_meta_optimizer"
ADVICE = "triggered tf.function retracing"


def is_traced(tensor: Any) -> bool:
    """Return whether a tensor stands for numbers in a program that is being traced."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    return "Tracer" in type(tensor).__name__  # of JAX


def replica_context() -> Any:
    """TensorFlow's context of the replica that runs here; None where there are no others."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


@contextlib.contextmanager
def xla_alone() -> Iterator[None]:
    """While it lasts, TensorFlow does not optimise the graphs of what is traced.

    For models that XLA compiles: XLA optimises them anyway, and TensorFlow's own passes over a training
    program cost as long as tracing it, a quarter of what a short run takes.
    """
    import tensorflow as tf

    before = tf.config.optimizer.get_experimental_options().get(OPTION, False)
    tf.config.optimizer.set_experimental_options({OPTION: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({OPTION: before})


@contextlib.contextmanager
def no_retracing_advice() -> Iterator[None]:
    """While it lasts, TensorFlow does not warn of functions traced again and again.

    It counts traces by line of code: five models one after the other look to it like one that is retraced.
    """
    import tensorflow as tf

    def keep(record: logging.LogRecord) -> bool:
        return ADVICE not in record.getMessage()

    logger = tf.get_logger()
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def use_precision(name: str) -> None:
    """Chooses for this process: whole float32 products, or TensorFloat-32 with its 10 bits of mantissa.

    TensorFlow takes TensorFloat-32 by itself on GPUs that have it, and so would not compute what the paper's
    float32 did; modtf does so only where it is asked to. A CPU has no such choice.

    Args:
        name: "float32", "tf32", or "mixed_bfloat16": a model that was built so computes most products with 7
            bits of mantissa by itself, and what it leaves in float32 is whole.

    Raises:
        ValueError: on another name.
    """
    check_choice("precision", name, PRECISIONS)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        config = tf.config.experimental
        if config.tensor_float_32_execution_enabled() != (name == "tf32"):
            config.enable_tensor_float_32_execution(name == "tf32")
    elif keras.backend.backend() == "jax":
        import jax

        value = "tensorfloat32" if name == "tf32" else "float32"
        jax.config.update("jax_default_matmul_precision", value)
