"""Several training steps in one compiled program, and a population's members in turn."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from modtf.models.base import ModularModel
from modtf.training.compile import STEPS_PER_EXECUTION

SECONDS_FLOPS = 2e11  # floating-point operations that one core does in some seconds
ACCELERATION = 50  # how many cores an accelerator is worth, at least
STEPS_PER_PROGRAM = 20  # by then starting a program is lost in the steps
BYTES_PER_PROGRAM = 1 << 27  # of batches handed to one program


def largest_divisor(number: int, at_most: int) -> int:
    """The largest divisor of `number` that is not above `at_most`."""
    return next(n for n in range(min(number, at_most), 0, -1) if number % n == 0)


def steps_of_seconds(model: keras.Model, num_tokens: int) -> int:
    """About how many steps on so many tokens take two to four seconds on one core; 1 to 100."""
    step = 6 * model.count_params() * num_tokens  # forward 2 per weight and token, backward twice that
    return max(1, min(STEPS_PER_EXECUTION, int((1 if _on_cpu() else ACCELERATION) * SECONDS_FLOPS // step)))


def steps_per_program(data: tf.data.Dataset, steps: int) -> int:
    """How many of `steps` steps one program takes: a divisor of `steps`.

    Args:
        data: batches whose shapes are known.
        steps: between two returns to Python.
    """
    specs = tf.nest.flatten(data.element_spec)
    batch_bytes = sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
    return largest_divisor(steps, max(1, min(STEPS_PER_PROGRAM, BYTES_PER_PROGRAM // batch_bytes)))


def training_program(model: keras.Model) -> Callable[[Any], None]:
    """One compiled program that takes the model's training step with every batch of a stack, in order.

    On a CPU the members of a population take turns, each with the whole stack: so what one of them works
    with stays in the processor's cache. An accelerator trains them side by side.

    Args:
        model: compiled, on the TensorFlow backend.

    Returns:
        A function of stacked batches, (features, target) with tensors [K, B, ...].
    """
    if isinstance(model, ModularModel) and model.num_members > 1 and _on_cpu():
        return _members_in_turn(model)
    strategy = model.distribute_strategy

    @tf.function(jit_compile=True, autograph=False)
    def training_program(batches):
        _take_steps(lambda batch: strategy.run(model.train_step, args=(batch,)), batches)

    return training_program


def _take_steps(step: Callable[[Any], Any], batches: Any) -> None:
    def body(n):
        step(tf.nest.map_structure(lambda stacked: stacked[n], batches))
        return n + 1

    steps = tf.nest.flatten(batches)[0].shape[0]
    tf.while_loop(lambda n: n < steps, body, [0], parallel_iterations=1)


def _on_cpu() -> bool:
    devices = {device.device_type for device in tf.config.list_logical_devices()}
    return devices == {"CPU"} and not tf.distribute.has_strategy()


def _members_in_turn(model: ModularModel) -> Callable[[Any], None]:
    """Members never meet, so each may take all steps of a program before the next one takes its first.

    A population of one stands in for each of them: it is handed the member's weights and what the optimizer
    keeps of them, takes the steps, and hands them back.
    """
    one = model.one_member()
    config = model.get_compile_config()
    config["optimizer"]["config"]["num_members"] = 1
    one.compile_from_config(config)
    model.optimizer.build(model.trainable_variables)
    pairs = list(zip(_state(model), _state(one), strict=True))
    per_member = [(ours, its) for ours, its in pairs if ours.shape != its.shape]
    shared = [(ours, its) for ours, its in pairs if ours.shape == its.shape]

    @tf.function(jit_compile=True, autograph=False)
    def training_program(batches):
        for ours, its in shared:
            its.assign(ours)

        def turn(member, states):
            for (_, its), state in zip(per_member, states, strict=True):
                its.assign(state.read(member))
            one.optimizer.iterations.assign(model.optimizer.iterations)
            mine = tf.nest.map_structure(lambda stacked: stacked[:, :, member, None], batches)
            _take_steps(one.train_step, mine)
            return member + 1, [
                state.write(member, its.value) for (_, its), state in zip(per_member, states, strict=True)
            ]

        states = [
            tf.TensorArray(ours.dtype, model.num_members, clear_after_read=False).unstack(ours.value[:, None])
            for ours, _ in per_member
        ]
        _, states = tf.while_loop(
            lambda member, _: member < model.num_members, turn, [0, states], parallel_iterations=1
        )
        for (ours, _), state in zip(per_member, states, strict=True):
            ours.assign(state.stack()[:, 0])
        for ours, its in shared:
            ours.assign(its)

    return training_program


def _state(model: keras.Model) -> list[keras.Variable]:
    """All that training changes."""
    return [*model.variables, *model.optimizer.variables, *model.metrics_variables]


def _train_function(model: keras.Model, steps: int, per_program: int) -> Callable[[Any], dict[str, Any]]:
    """What `fit` calls with an endless iterator to take `steps` steps, `per_program` at a time."""
    program = training_program(model)

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


def use_large_programs(model: keras.Model, data: tf.data.Dataset) -> None:
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
