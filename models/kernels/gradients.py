"""Gradients that a kernel writes out itself, and what TensorFlow keeps of them.

Tracing such a kernel into a graph registers its gradient in TensorFlow for good, and with it the graph:
a process that trains one model after the other would hold all their programs. So what `modtf.train` and
`modtf.evaluate` trace is taken out again when they end: nobody differentiates it afterwards.
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
    """As `keras.ops.custom_gradient`, and `no_gradients_kept` knows of it.

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
    """Within it, what is traced is known to `no_gradients_kept`."""
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
    """Make TensorFlow forget the gradients of kernels traced inside, when the context ends.

    Programs that were traced go on working. Only asking for the gradient of one of them, as if it were a
    step of a larger program, would fail.
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
    """TensorFlow's gradients by name; it has no public way to take one out."""
    try:
        from tensorflow.python.framework.ops import gradient_registry

        return gradient_registry._registry
    except (ImportError, AttributeError):  # another version: what it keeps, stays
        return {}
