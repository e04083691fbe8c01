"""Training with JAX: several steps in one program, a `scan` over batches that it makes or receives."""

from collections.abc import Callable
from typing import Any

import keras
from etils import epy

from modtf.base.cache import Cache
from modtf.training.batches import Batches, DeviceBatches
from modtf.xla.jax_trainer import build_losses, keep_state

with epy.lazy_imports():  # only if Keras runs on it
    import jax


def scanning_program(model: keras.Model, stack: Callable[[Any, int], Any], count: int) -> Any:
    """Return JAX's compiled function (state, element) -> (logs, state), which takes `count` steps.

    The state is that of Keras's trainer, and is consumed. `stack` turns an element into batches, as
    `DeviceBatches.stack` does.
    """

    def step(state: Any, batch: Any) -> Any:
        return model.train_step(state, batch)[::-1]

    def program(state: Any, element: Any) -> Any:
        state, logs = jax.lax.scan(step, state, stack(element, count))
        return keras.tree.map_structure(lambda values: values[-1], logs), state

    return jax.jit(program, donate_argnums=0)


def scanning_function(
    model: keras.Model, batches: Batches, steps: int, per_program: int, programs: Cache
) -> Callable[[Any, Any], Any]:
    """Return the function that Keras's JAX trainer calls to take `steps` steps, `per_program` at a time."""
    if isinstance(batches, DeviceBatches):  # otherwise Keras builds the losses from a first batch
        first = jax.eval_shape(lambda: batches.stack((batches.start_step,), 1))
        shapes = keras.tree.map_structure(lambda one: jax.ShapeDtypeStruct(one.shape[1:], one.dtype), first)
        build_losses(model, shapes)
    schedule = getattr(model.optimizer, "schedule", None)
    rate = schedule and float(schedule.initial_learning_rate)  # a constant of the program
    program = programs.get_or_make(
        (batches.program, per_program, rate), lambda: scanning_program(model, batches.stack, per_program)
    )

    def function(state: Any, iterator: Any) -> Any:
        for _ in range(steps // per_program):
            logs, state = program(state, batches.read(iterator, per_program))
            keep_state(model, state)
        return logs, state

    return function
