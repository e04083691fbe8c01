"""How exactly matrix products are computed in float32, on devices that have a choice."""

import keras

from modtf.checks import check_choice
from modtf.protocol import PRECISIONS


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
