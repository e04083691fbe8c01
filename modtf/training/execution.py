"""Several training steps in one compiled program, and a population's members in turn."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from modtf.models.base import ModularModel
from modtf.models.kernels.by_device import CPU, kernels, on_cpu
from modtf.training.arithmetic import ACCELERATION, step_flops, steps_that_fit
from modtf.training.batches import Batches
from modtf.training.compile import STEPS_PER_EXECUTION, Compilation, state_of

SECONDS_FLOPS = 2e11  # floating-point operations that one core does in some seconds


def steps_of_seconds(model: keras.Model, num_tokens: int) -> int:
    """About how many steps on so many tokens take two to four seconds on one core; 1 to 100."""
    step = max(1, step_flops(model.count_params(), num_tokens))  # a model may have no weights
    return max(1, min(STEPS_PER_EXECUTION, int((1 if on_cpu() else ACCELERATION) * SECONDS_FLOPS // step)))


def steps_per_program(batches: Batches, steps: int) -> int:
    """How many of `steps` steps one program takes: a divisor of `steps`.

    Args:
        batches: that it takes.
        steps: between two returns to Python.
    """
    return steps_that_fit(batches.bytes_per_step, steps)


def training_program(model: keras.Model, batches: Batches, count: int) -> Callable[[Any], None]:
    """One compiled program that takes the model's training step with every batch of some, in order.

    On a CPU the members of a population take turns, each with all batches: so what one of them works
    with stays in the processor's cache. An accelerator trains them side by side.

    Args:
        model: compiled, on the TensorFlow backend.
        batches: where they come from.
        count: how many, K.

    Returns:
        A function of what `batches.read` gives.
    """
    if isinstance(model, ModularModel) and model.num_members > 1 and _take_turns():
        return _members_in_turn(model, batches, count)
    strategy = model.distribute_strategy

    @tf.function(jit_compile=True, autograph=False)
    def training_program(given):
        stacked = batches.stack(given, count)
        _take_steps(lambda batch: strategy.run(model.train_step, args=(batch,)), stacked)

    return training_program


def _take_steps(step: Callable[[Any], Any], batches: Any) -> None:
    def body(n):
        step(tf.nest.map_structure(lambda stacked: stacked[n], batches))
        return n + 1

    steps = tf.nest.flatten(batches)[0].shape[0]
    tf.while_loop(lambda n: n < steps, body, [0], parallel_iterations=1)


def _take_turns() -> bool:
    """Whether members do: it is a choice of kernels, for a core's cache."""
    return kernels() == CPU and not tf.distribute.has_strategy()


def _members_in_turn(model: ModularModel, batches: Batches, count: int) -> Callable[[Any], None]:
    """Members never meet, so each may take all steps of a program before the next one takes its first.

    A population of one stands in for each of them: it is handed the member's weights and what the optimizer
    keeps of them, takes the steps, and hands them back.
    """
    one = compiled_part(model, 0, 1)
    pairs = list(zip(_all_of(model), _all_of(one), strict=True))
    per_member = [(ours, its) for ours, its in pairs if ours.shape != its.shape]
    shared = [(ours, its) for ours, its in pairs if ours.shape == its.shape]

    @tf.function(jit_compile=True, autograph=False)
    def training_program(given):
        for ours, its in shared:
            its.assign(ours)

        def turn(member, states):
            for (_, its), state in zip(per_member, states, strict=True):
                its.assign(state.read(member))
            one.optimizer.iterations.assign(model.optimizer.iterations)
            _take_steps(one.train_step, batches.of_member(given, count, member))
            return member + 1, [
                state.write(member, its.value) for (_, its), state in zip(per_member, states, strict=True)
            ]

        states = [
            tf.TensorArray(ours.dtype, model.num_members, clear_after_read=False).unstack(
                tf.expand_dims(ours.value, 1)
            )
            for ours, _ in per_member
        ]
        _, states = tf.while_loop(
            lambda member, _: member < model.num_members, turn, [0, states], parallel_iterations=1
        )
        for (ours, _), state in zip(per_member, states, strict=True):
            ours.assign(tf.squeeze(state.stack(), 1))
        for ours, its in shared:
            ours.assign(its)

    return training_program


def compiled_part(model: ModularModel, first: int, last: int) -> ModularModel:
    """A population of members first ... last - 1 of a compiled one, compiled likewise; with new weights."""
    part = model.some_members(first, last)
    config = model.get_compile_config()
    config["optimizer"]["config"]["num_members"] = last - first
    part.compile_from_config(config)
    for each in (model, part):
        each.optimizer.build(each.trainable_variables)
    return part


def _all_of(model: keras.Model) -> list[keras.Variable]:
    """All that training changes."""
    return [*state_of(model), *model.metrics_variables]


def _train_function(
    model: keras.Model, batches: Batches, steps: int, per_program: int
) -> Callable[[Any], dict[str, Any]]:
    """What `fit` calls with an endless iterator to take `steps` steps, `per_program` at a time."""
    program = training_program(model, batches, per_program)

    @tf.function(autograph=False)
    def function(iterator):
        def execute(n):
            program(batches.read(iterator, per_program))
            return n + 1

        programs = steps // per_program
        tf.while_loop(lambda n: n < programs, execute, [0], parallel_iterations=1)
        return model.get_metrics_result()

    return function


def can_use_large_programs(model: keras.Model) -> bool:
    """Whether a compiled model can take several steps per program: on TensorFlow, with XLA."""
    return keras.backend.backend() == "tensorflow" and model.jit_compile and not model.run_eagerly


def use_large_programs(model: keras.Model, batches: Batches, devices: Sequence[str] = ()) -> tf.data.Dataset:
    """Makes `fit` take several steps per compiled program; returns the endless dataset to call it with.

    Keras's own starts a program for every step and hands it every weight; for a small model that is a
    fifth of the step. Where it cannot be otherwise (another backend than TensorFlow, no XLA, several
    replicas) Keras is left alone. `model.train_function = None` gives Keras's own back, which can read a
    dataset that ends.

    Args:
        model: compiled; after it, call `fit` alone.
        batches: the host's, where Keras is left alone.
        devices: over which the members of a population are split, if there are several.

    Raises:
        ValueError: where members cannot be split.
    """
    if len(devices) > 1 and not (
        can_use_large_programs(model) and isinstance(model, ModularModel) and model.num_members > 1
    ):
        raise ValueError(
            f"{len(devices)} devices were given to share the members of a population: that needs a model of "
            "modtf.build with several members, TensorFlow, XLA, and no tf.distribute strategy."
        )
    if not can_use_large_programs(model):
        return batches.feed(1)
    steps = model.steps_per_execution
    per_program = steps_per_program(batches, steps)
    if len(devices) > 1:
        from modtf.training.shares import shares_function  # which trains its shares as here

        model.train_function = shares_function(model, batches, steps, per_program, devices)
    else:
        model.train_function = _kept_function(model, batches, steps, per_program)
    return batches.feed(per_program)


def _kept_function(
    model: keras.Model, batches: Batches, steps: int, per_program: int
) -> Callable[[Any], dict[str, Any]]:
    """As `_train_function`; the one that the model was trained with before, where it would be the same."""
    compilation = Compilation.of(model)
    if compilation is None:  # compiled by somebody else
        return _train_function(model, batches, steps, per_program)
    key = (batches.program, steps, per_program)
    if key not in compilation.programs:
        compilation.programs[key] = _train_function(model, batches, steps, per_program)
    return compilation.programs[key]
