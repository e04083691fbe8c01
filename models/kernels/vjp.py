"""The gradient of a function that has not written out its own, for use inside a gradient that is."""

from collections.abc import Callable
from typing import Any

import keras


def can_differentiate() -> bool:
    """Whether `vector_jacobian` knows the backend."""
    return keras.backend.backend() in ("tensorflow", "jax")


def vector_jacobian(function: Callable[[Any], Any], x: Any, upstream: Any) -> Any:
    """The gradient of sum(function(x) * upstream) with respect to x, in any loop.

    Args:
        function: from one tensor to one.
        x: where it is differentiated.
        upstream: of the shape of function(x).
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.vjp(function, x)[1](upstream)[0]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, upstream, tf.UnconnectedGradients.ZERO)
