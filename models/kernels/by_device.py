"""The choice of a kernel's form: one form suits a CPU core, another an accelerator.

A core needs loops over the batch that it can vectorise, and data that stays in its cache. Its sums come in
pieces, and the members of a population take turns. An accelerator launches a kernel for every piece, so there
a sum is one operation over all members. Both forms compute the same. The choice is made while a program is
traced, so it costs nothing later.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from typing import Any

import keras

from modtf.base.checks import check_choice
from modtf.tasks.protocol import KERNELS

CPU, ACCELERATOR = KERNELS

_CHOSEN: ContextVar[str | None] = ContextVar("kernels that use_kernels chose", default=None)


def on_cpu() -> bool:
    """Return whether Keras's backend has no accelerator."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.default_backend() == "cpu"
    import tensorflow as tf

    return {device.device_type for device in tf.config.list_logical_devices()} == {"CPU"}


def kernels() -> str:
    """Return the form for the program being traced: the device's own, unless `use_kernels` sets another."""
    return _CHOSEN.get() or (CPU if on_cpu() else ACCELERATOR)


@contextlib.contextmanager
def use_kernels(name: str | None) -> Iterator[None]:
    """Use this form for everything traced in the context, whatever the device.

    Args:
        name: "cpu" or "accelerator"; None for the device's own form.

    Raises:
        ValueError: if the name is another one.

    Example:
        >>> with use_kernels("accelerator"):
        ...     modtf.train(model, task, steps=1000)
    """
    if name is not None:
        check_choice("kernels", name, KERNELS)
    token = _CHOSEN.set(name)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def by_device(accelerator: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a kernel as the form for a CPU core (a decorator). An accelerator gets `accelerator`, with the
    same arguments."""

    def choose(cpu: Callable[..., Any]) -> Callable[..., Any]:
        forms = {CPU: cpu, ACCELERATOR: accelerator}

        @wraps(cpu)
        def chosen(*args: Any, **options: Any) -> Any:
            return forms[kernels()](*args, **options)

        return chosen

    return choose
