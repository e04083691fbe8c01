"""The training function of `fit`: several steps in one compiled program, on one device or several.

On a CPU the members of a population train in turn; over several devices each device trains a share of them.
With JAX, `modtf.training.scan` makes the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import keras
from etils import epy

from modtf.base.cache import Cache
from modtf.evaluation.programs import compiled_of
from modtf.models.base import ModularModel
from modtf.models.kernels.by_device import CPU, kernels, on_cpu
from modtf.training.arithmetic import ACCELERATION, step_flops, steps_that_fit
from modtf.training.batches import Batches
from modtf.training.compile import STEPS_PER_EXECUTION, program_variables, training_variables
from modtf.training.scan import scanning_function

with epy.lazy_imports():  # JAX does without it
    import tensorflow as tf

SECONDS_FLOPS = 2e11  # floating-point operations of one core in a few seconds


def steps_of_seconds(model: keras.Model, num_tokens: int) -> int:
    """Return about how many steps of `num_tokens` tokens take two to four seconds on one core; 1 to 100."""
    step = max(1, step_flops(model.count_params(), num_tokens))  # a model may have no weights
    return max(1, min(STEPS_PER_EXECUTION, int((1 if on_cpu() else ACCELERATION) * SECONDS_FLOPS // step)))


def _train_function(
    model: keras.Model, batches: Batches, steps: int, per_program: int, devices: Sequence[str]
) -> Callable[[Any], dict[str, Any]]:
    """Return the function that `fit` calls with an endless iterator to take `steps` steps, `per_program` at a
    time."""
    receive = hand_back = lambda: None
    if len(devices) > 1:
        receive, program, hand_back = in_shares(model, batches, per_program, devices)
    else:
        program = training_program(model, batches, per_program)

    @tf.function(autograph=False)
    def function(iterator):
        receive()

        def execute(n):
            program(batches.read(iterator, per_program))
            return n + 1

        tf.while_loop(lambda n: n < steps // per_program, execute, [0], parallel_iterations=1)
        hand_back()
        return model.get_metrics_result()

    return function


def can_use_large_programs(model: keras.Model) -> bool:
    """Return whether a compiled model can take several steps per program: on TensorFlow or JAX, with XLA."""
    known = keras.backend.backend() in ("tensorflow", "jax")
    return known and model.jit_compile and not model.run_eagerly


def use_large_programs(model: keras.Model, batches: Batches, devices: Sequence[str] = ()) -> Iterable[Any]:
    """Make `fit` take several steps per compiled program; return the endless dataset to call it with.

    Keras starts a program for every step and passes it every weight. For a small model that costs a fifth of
    the step. Without XLA, with another backend than TensorFlow and JAX or with several replicas, Keras keeps
    its own function and reads batches from the host. `model.train_function = None` restores Keras's function,
    which can also read a finite dataset. Over several `devices` the members of a population are split.
    """
    large = can_use_large_programs(model)
    by_jax = keras.backend.backend() == "jax"
    several = large and not by_jax and isinstance(model, ModularModel) and model.num_members > 1
    if len(devices) > 1 and not several:
        raise ValueError(
            f"{len(devices)} devices cannot share the members of this model. Expected a model of "
            "modtf.build with several members, TensorFlow, XLA, and no tf.distribute strategy."
        )
    if not large:
        return batches.feed(1)
    steps = model.steps_per_execution
    per_program = steps_that_fit(batches.bytes_per_step, steps)
    compiled = compiled_of(model)
    functions = Cache() if compiled is None else compiled.functions
    if by_jax:
        model.train_function = scanning_function(model, batches, steps, per_program, functions)
    else:
        model.train_function = functions.get_or_make(
            (batches.program, steps, per_program, tuple(devices)),
            lambda: _train_function(model, batches, steps, per_program, devices),
        )
    return batches.feed(per_program)


def training_program(model: keras.Model, batches: Batches, count: int) -> Callable[[Any], None]:
    """Return one compiled program that takes a training step with each of `count` batches, in order.

    Its argument is what `batches.read` returns for `count` batches. On a CPU the members of a population take
    turns, each with all batches, so that one member's data stay in the processor's cache. An accelerator
    trains all members side by side.
    """
    # only the CPU kernels depend on a core's cache
    in_turn = kernels() == CPU and not tf.distribute.has_strategy()
    if in_turn and isinstance(model, ModularModel) and model.num_members > 1:
        return _members_in_turn(model, batches, count)
    strategy = model.distribute_strategy

    @tf.function(jit_compile=True, autograph=False)
    def training_program(element):
        stacked = batches.stack(element, count)
        _take_steps(lambda batch: strategy.run(model.train_step, args=(batch,)), stacked)

    return training_program


def _take_steps(step: Callable[[Any], Any], batches: Any) -> None:
    def body(n):
        step(tf.nest.map_structure(lambda stacked: stacked[n], batches))
        return n + 1

    steps = tf.nest.flatten(batches)[0].shape[0]
    tf.while_loop(lambda n: n < steps, body, [0], parallel_iterations=1)


def _members_in_turn(model: ModularModel, batches: Batches, count: int) -> Callable[[Any], None]:
    """Return a program in which each member takes all its steps before the next member starts.

    This is valid because members are independent. A population of one stands in for each member: it receives
    the member's weights and optimizer state, takes the steps, and returns both.
    """
    one = compiled_part(model, 0, 1)
    changed = ([*program_variables(each), *each.metrics_variables] for each in (model, one))
    pairs = list(zip(*changed, strict=True))
    per_member = [(whole, piece) for whole, piece in pairs if whole.shape != piece.shape]
    shared = [(whole, piece) for whole, piece in pairs if whole.shape == piece.shape]

    @tf.function(jit_compile=True, autograph=False)
    def training_program(element):
        for whole, piece in shared:
            piece.assign(whole)

        def turn(member, states):
            for (_, piece), state in zip(per_member, states, strict=True):
                piece.assign(state.read(member))
            one.optimizer.iterations.assign(model.optimizer.iterations)
            _take_steps(one.train_step, batches.of_member(element, count, member))
            return member + 1, [
                state.write(member, piece.value) for (_, piece), state in zip(per_member, states, strict=True)
            ]

        states = [
            tf.TensorArray(whole.dtype, model.num_members, clear_after_read=False).unstack(
                tf.expand_dims(whole.value, 1)
            )
            for whole, _ in per_member
        ]
        _, states = tf.while_loop(
            lambda member, _: member < model.num_members, turn, [0, states], parallel_iterations=1
        )
        for (whole, _), state in zip(per_member, states, strict=True):
            whole.assign(tf.squeeze(state.stack(), 1))
        for whole, piece in shared:
            whole.assign(piece)

    return training_program


def compiled_part(model: ModularModel, first: int, last: int) -> ModularModel:
    """Return a population of members first ... last - 1 of a compiled model, compiled alike, with new
    weights."""
    part = model.some_members(first, last)
    for whole, piece in zip(model.variables, part.variables, strict=True):
        piece.trainable = whole.trainable  # a trainer may have frozen some
    config = model.get_compile_config()
    config["optimizer"]["config"]["num_members"] = last - first
    part.compile_from_config(config)
    for each in (model, part):
        each.optimizer.build(each.trainable_variables)
    return part


def bounds(num_members: int, num_devices: int) -> list[tuple[int, int]]:
    """Return (first, last + 1) for each share of the members: as even as possible, at most one share per
    member."""
    count = min(num_members, num_devices)
    return list(pairwise(-(-num_members * n // count) for n in range(count + 1)))


def in_shares(
    model: ModularModel, batches: Batches, count: int, devices: Sequence[str]
) -> tuple[Callable[[], None], Callable[[Any], None], Callable[[], None]]:
    """Split the members over devices: each device trains its share, independently of the others.

    Before and after, the model of all members holds the complete state. Callbacks, checkpoints and
    evaluations therefore see one population on its own device. A program takes `count` steps.

    Returns:
        A function that copies the model's state to the shares; a program like that of `training_program`;
        and a function that copies the trained state back into the model.
    """
    cuts, parts, programs = bounds(model.num_members, len(devices)), [], []
    for device, (first, last) in zip(devices, cuts, strict=False):
        with tf.device(device):
            parts.append(compiled_part(model, first, last))
            programs.append(training_program(parts[-1], batches.share(first, last), count))

    def receive() -> None:
        for part, (first, last) in zip(parts, cuts, strict=True):
            for whole, piece in zip(program_variables(model), program_variables(part), strict=True):
                piece.assign(whole.value if whole.shape == piece.shape else whole.value[first:last])
            for metric in part.metrics_variables:
                metric.assign(tf.zeros_like(metric.value))

    def train(element: Any) -> None:
        for device, program, cut in zip(devices, programs, cuts, strict=False):  # in parallel
            with tf.device(device):
                program(batches.cut(element, *cut))

    def hand_back() -> None:
        for whole, *pieces in zip(training_variables(model), *map(training_variables, parts), strict=True):
            same = whole.shape == pieces[0].shape
            whole.assign(pieces[0].value if same else tf.concat([piece.value for piece in pieces], axis=0))
        _add_means(model, parts)

    return receive, train, hand_back


def _add_means(model: ModularModel, parts: Sequence[ModularModel]) -> None:
    """Add the mean losses of the shares, which are means over their members, to those of the model."""
    for whole, *of_parts in zip(model.metrics, *(part.metrics for part in parts), strict=True):
        counted = sum(mean.count.value for mean in of_parts)
        means = [mean.total.value / mean.count.value for mean in of_parts]
        sums = [part.num_members * mean for part, mean in zip(parts, means, strict=True)]
        whole.total.assign_add(counted * sum(sums) / model.num_members)
        whole.count.assign_add(counted)
