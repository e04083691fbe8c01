"""Modules of which each example goes through one: their answers, without computing the others'."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from modtf.models.kernels.by_device import on_cpu

Module = Callable[..., Any]


def hard_routing(modules: Sequence[Module], inputs: Sequence[Any], choice: Any) -> Any:
    """What the chosen modules answer: equal to `mixture` of all answers with a one-hot p.

    TensorFlow sorts examples by module and puts answers back in order. Elsewhere, and where XLA compiles,
    which wants shapes that do not depend on data, all modules answer all.

    Args:
        modules: M functions of examples, [B, ...] each, to [B, ...]; they must not mix examples, but for
            statistics of a module's batch.
        inputs: the modules' arguments.
        choice: int32 [B], below M.
    """
    if len(modules) == 1:
        return modules[0](*inputs)
    if keras.backend.backend() != "tensorflow" or not on_cpu():
        p = ops.one_hot(choice, len(modules), dtype=inputs[0].dtype)
        return mixture([module(*inputs) for module in modules], p)
    import tensorflow as tf

    number, choice = len(modules), tf.convert_to_tensor(choice)
    places = tf.dynamic_partition(tf.range(tf.shape(choice)[0]), choice, number)
    parts = zip(*(tf.dynamic_partition(x, choice, number) for x in inputs), strict=True)
    answers = []
    for module, part, place in zip(modules, parts, places, strict=True):
        count = tf.shape(place)[0]
        answers.append(module(*(_not_empty(x, count) for x in part))[:count])
    found = tf.dynamic_stitch(places, answers)
    return tf.ensure_shape(found, [inputs[0].shape[0], *answers[0].shape[1:]])


def _not_empty(x: Any, count: Any) -> Any:
    """A blank example where there is none: TensorFlow's convolutions crash on nothing."""
    import tensorflow as tf

    blank = tf.cast(tf.equal(count, 0), tf.int32)
    return tf.pad(x, [[0, blank]] + [[0, 0]] * (len(x.shape) - 1))


def mixture(answers: Sequence[Any], p: Any) -> Any:
    """The sum over m of p_m answer_m.

    Args:
        answers: M tensors [B, ...].
        p: [B, M].
    """
    shape = [-1, *[1] * (len(answers[0].shape) - 1)]
    return sum(ops.reshape(p[:, m], shape) * answer for m, answer in enumerate(answers))
