"""Gradients that a kernel writes out itself, and their release from TensorFlow's registry.

When such a kernel is traced into a graph, TensorFlow registers its gradient, and with it the graph, for good.
A process that trains many models would hold all their programs. `modtf.train` and `modtf.evaluate` therefore
remove their entries when they end; nothing differentiates those programs afterwards.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from typing import Any

import keras
from keras import ops

_TRACED: ContextVar[set[str] | None] = ContextVar("gradients registered while tracing", default=None)


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do what `keras.ops.custom_gradient` does, and let `no_gradients_kept` find the gradient.

    Args:
        function: returns its value and the function of its gradient.
    """
    differentiable = ops.custom_gradient(function)

    @wraps(function)
    def called(*tensors):
        with noted():
            return differentiable(*tensors)

    return called


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Register the gradients of kernels traced in the context for `no_gradients_kept`."""
    traced = _TRACED.get()
    if traced is None:
        yield
        return
    before = set(_registered())
    try:
        yield
    finally:
        traced |= set(_registered()) - before


@contextlib.contextmanager
def no_gradients_kept() -> Iterator[None]:
    """Make TensorFlow forget the gradients of kernels traced in the context, when the context ends.

    The traced programs still work. Only differentiating one of them, as a part of a larger program, would
    fail.
    """
    if keras.backend.backend() != "tensorflow":
        yield
        return
    token = _TRACED.set(set())
    try:
        yield
    finally:
        traced = _TRACED.get() or set()
        _TRACED.reset(token)
        for name in traced:
            _registered().pop(name, None)


def _registered() -> dict[str, Any]:
    """Return TensorFlow's gradients by name. TensorFlow has no public way to remove one."""
    try:
        from tensorflow.python.framework.ops import gradient_registry

        return gradient_registry._registry
    except (ImportError, AttributeError):  # another TensorFlow version: nothing is removed
        return {}
