"""The state that Keras's JAX trainer holds while `fit` runs, the losses that it builds before, and what it
does not tell layers.

Seen in Keras 3.15.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras

GROUPS = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")


def build_losses(model: keras.Model, shapes: Any) -> None:
    """Build what a compiled model builds from its first batch, from the shapes and types of a batch."""
    model._symbolic_build(data_batch=shapes)
    for layer in model._flatten_layers():
        layer.built = True  # also those that are not called, or Keras builds from the program's argument


@contextmanager
def tell_layers(model: keras.Model, training: bool) -> Iterator[None]:
    """Tell the layers that `call` of a model calls whether it trains.

    `__call__` tells them, but Keras's JAX trainer calls `call` alone. Dropout and batch normalisation without
    an argument `training` would do nothing."""
    context = model._get_call_context()
    if context.entry_layer is model:
        context.set_value("training", training)
    try:
        yield
    finally:
        model._maybe_reset_call_context()


def keep_state(model: keras.Model, state: Sequence[Any]) -> None:
    """Make the trainer hold this state, so that an interrupted `fit` gives it to the model."""
    model._jax_state = dict(zip(GROUPS, state, strict=True))


def give_state(model: keras.Model) -> bool:
    """Give a model the state that `fit` holds; return False if an interrupted program has consumed it."""
    model.jax_state_sync()
    return not any(variable.value.is_deleted() for variable in model.variables)
