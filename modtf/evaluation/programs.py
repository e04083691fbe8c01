"""Who compiles the programs of a model, and how TensorFlow keeps and optimises them."""

import contextlib
from collections.abc import Iterator

import keras

from modtf.models.kernels.by_device import on_cpu
from modtf.models.kernels.gradients import no_gradients_kept
from modtf.xla.switches import no_retracing_advice, xla_alone


@contextlib.contextmanager
def programs_of(model: keras.Model) -> Iterator[None]:
    """Stands around `fit` and `evaluate` of a compiled model.

    No advice on retracing, no gradients kept, and, where XLA compiles it, optimised by XLA alone.
    """
    optimised = xla_alone() if model.jit_compile else contextlib.nullcontext()
    with no_retracing_advice(), no_gradients_kept(), optimised:
        yield


def with_xla(model: keras.Model, asked: bool | str) -> bool | str:
    """Whether XLA compiles a model: as asked, but never on a CPU where its architecture says so."""
    return asked if getattr(model, "compiled_by_xla", None) is not False or not on_cpu() else False
