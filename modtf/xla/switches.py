"""Switches of TensorFlow: graph passes, retracing advice, the mantissa of products, and whether and by which
replica of `tf.distribute` a program is being traced; and JAX's numbers of 64 bits.

They were seen in TensorFlow 2.21 and JAX 0.10.
"""

import contextlib
import logging
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import keras

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
    """Turn off TensorFlow's optimisation of the graphs that are traced in the context.

    Use it for models that XLA compiles, because XLA optimises them anyway. TensorFlow's own passes over a
    training program take as long as tracing it, a quarter of a short run.
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
    """Turn off TensorFlow's warnings about repeated tracing in the context.

    TensorFlow counts traces by line of code, so five models in a row look like one that is traced again.
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
    """Set the precision of products in this process: float32, or TensorFloat-32 with a mantissa of 10 bits.

    TensorFlow uses TensorFloat-32 by default on GPUs that support it, which differs from the paper's float32.
    modtf uses it only on request. On a CPU the choice has no effect.

    Args:
        name: "float32", "tf32", or "mixed_bfloat16". A model built with the last computes most products with
            a mantissa of 7 bits, and its other products in float32.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        config = tf.config.experimental
        if config.tensor_float_32_execution_enabled() != (name == "tf32"):
            config.enable_tensor_float_32_execution(name == "tf32")
    elif keras.backend.backend() == "jax":
        import jax

        value = "tensorfloat32" if name == "tf32" else "float32"
        jax.config.update("jax_default_matmul_precision", value)


def with_64_bits() -> contextlib.AbstractContextManager[Any]:
    """Let programs that are traced and called in the context have numbers of 64 bits, which JAX leaves out by
    default."""
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    jax: Any = import_module("jax")
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def has_64_bits() -> bool:
    """Return whether programs that are traced now can have numbers of 64 bits."""
    if keras.backend.backend() != "jax":
        return True
    return bool(import_module("jax").config.jax_enable_x64)
