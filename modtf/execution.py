"""Several training steps in one compiled program: what starting one costs is then paid once for them all."""

from collections.abc import Callable
from typing import Any

import keras

STEPS_PER_PROGRAM = 20  # by then starting a program is lost in the steps
BYTES_PER_PROGRAM = 1 << 25  # of batches handed to one program


def largest_divisor(number: int, at_most: int) -> int:
    """The largest divisor of `number` that is not above `at_most`."""
    return next(n for n in range(min(number, at_most), 0, -1) if number % n == 0)


def steps_per_program(data: Any, steps: int) -> int:
    """How many of `steps` steps one program takes: a divisor of `steps`.

    Args:
        data: a `tf.data.Dataset` of batches whose shapes are known.
        steps: between two returns to Python.
    """
    import tensorflow as tf

    specs = tf.nest.flatten(data.element_spec)
    batch_bytes = sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
    return largest_divisor(steps, max(1, min(STEPS_PER_PROGRAM, BYTES_PER_PROGRAM // batch_bytes)))


def steps_program(step: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A compiled program that takes `step` with every batch of a stack, in order.

    Args:
        step: from a batch, changing variables only; what it returns is dropped.

    Returns:
        A function of stacked batches: nested tensors [K, ...].
    """
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def training_program(batches):
        def body(n):
            step(tf.nest.map_structure(lambda stacked: stacked[n], batches))
            return n + 1

        steps = tf.nest.flatten(batches)[0].shape[0]
        tf.while_loop(lambda n: n < steps, body, [0], parallel_iterations=1)

    return training_program


def _train_function(model: keras.Model, steps: int, per_program: int) -> Callable[[Any], dict[str, Any]]:
    """What `fit` calls with an endless iterator to take `steps` steps, `per_program` at a time."""
    import tensorflow as tf

    strategy = model.distribute_strategy
    program = steps_program(lambda batch: strategy.run(model.train_step, args=(batch,)))

    @tf.function(autograph=False)
    def function(iterator):
        def execute(n):
            batches = [next(iterator) for _ in range(per_program)]
            program(tf.nest.map_structure(lambda *one_by_one: tf.stack(one_by_one), *batches))
            return n + 1

        programs = steps // per_program
        tf.while_loop(lambda n: n < programs, execute, [0], parallel_iterations=1)
        return model.get_metrics_result()

    return function


def use_large_programs(model: keras.Model, data: Any) -> None:
    """Makes `fit` on the endless dataset `data` take several steps per compiled program.

    Keras's own starts a program for every step and hands it every weight; for a small model that is a
    fifth of the step. Where it cannot be otherwise (another backend than TensorFlow, no XLA, several
    replicas) Keras is left alone. `model.train_function = None` gives Keras's own back, which can read a
    dataset that ends.

    Args:
        model: compiled; after it, call `fit` alone.
        data: batches of known shape.
    """
    if keras.backend.backend() == "tensorflow" and model.jit_compile and not model.run_eagerly:
        steps = model.steps_per_execution
        model.train_function = _train_function(model, steps, steps_per_program(data, steps))
