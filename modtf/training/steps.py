"""Training steps in one compiled program; on a CPU a population's members take turns."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from modtf.models.base import ModularModel
from modtf.models.kernels.by_device import CPU, kernels
from modtf.training.batches import Batches
from modtf.training.compile import state_of


def training_program(model: keras.Model, batches: Batches, count: int) -> Callable[[Any], None]:
    """One compiled program that takes the model's training step with every batch of some, in order.

    On a CPU the members of a population take turns, each with all batches: so what one of them works
    with stays in the processor's cache. An accelerator trains them side by side. It takes what `batches.read`
    gives of `count` batches.
    """
    # a choice of kernels, for a core's cache
    in_turn = kernels() == CPU and not tf.distribute.has_strategy()
    if in_turn and isinstance(model, ModularModel) and model.num_members > 1:
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


def _members_in_turn(model: ModularModel, batches: Batches, count: int) -> Callable[[Any], None]:
    """Members never meet, so each may take all steps of a program before the next one takes its first.

    A population of one stands in for each of them: it is handed the member's weights and what the optimizer
    keeps of them, takes the steps, and hands them back.
    """
    one = compiled_part(model, 0, 1)
    changed = ([*state_of(each), *each.metrics_variables] for each in (model, one))
    pairs = list(zip(*changed, strict=True))
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
    for ours, its in zip(model.variables, part.variables, strict=True):
        its.trainable = ours.trainable  # a trainer may have frozen some
    config = model.get_compile_config()
    config["optimizer"]["config"]["num_members"] = last - first
    part.compile_from_config(config)
    for each in (model, part):
        each.optimizer.build(each.trainable_variables)
    return part
