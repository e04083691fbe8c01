"""Answers of modules when each example goes through one module, without computing the others' answers."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.models.kernels.by_device import CPU, kernels, on_cpu

Module = Callable[..., Any]


def hard_routing(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    choice: Any,
    in_turn: Sequence[int] = (),
    counted: bool = False,
) -> Any:
    """Return the answers of the chosen modules, which equal the `mixture` of all answers with a one-hot p.

    On a CPU core TensorFlow sorts the examples by module and puts the answers back in order. Elsewhere shapes
    must not depend on data. If modules take turns as `in_turn` says, their examples are static slices;
    otherwise every module answers every example.

    Args:
        modules: M functions from examples [B, ...] to answers [B, ...]. They must not mix examples, except in
            statistics of the counted ones.
        inputs: the modules' arguments.
        choice: int32 [B], below M.
        in_turn: the choice for Q examples, if most batches repeat it. A batch that does not is still correct.
        counted: whether modules take a last argument, 1.0 [B] for their own examples and 0.0 elsewhere.
    """
    if len(modules) == 1:
        return modules[0](*inputs)
    if keras.backend.backend() == "tensorflow" and on_cpu() and kernels() == CPU:
        return _sorted(modules, inputs, choice, counted)
    everyone = partial(_masked, modules, inputs, choice, counted)
    size, runs = inputs[0].shape[0], [(m, len(list(run))) for m, run in itertools.groupby(in_turn)]
    if not runs or counted or size is None or size % len(in_turn) or len(runs) > len(set(in_turn)):
        return everyone()
    same = ops.all(ops.equal(choice, np.tile(np.array(in_turn, np.int32), size // len(in_turn))))
    return ops.cond(same, partial(_slices, modules, inputs, runs), everyone)


def _slices(modules: Sequence[Module], inputs: Sequence[Any], runs: Sequence[tuple[int, int]]) -> Any:
    """Return the slices of each turn.

    The first `runs[0][1]` examples of a turn belong to module `runs[0][0]`, and so on.
    """
    ends = list(itertools.accumulate(length for _, length in runs))
    turns = inputs[0].shape[0] // ends[-1]
    parts = (ops.split(ops.reshape(x, [turns, ends[-1], *x.shape[1:]]), ends[:-1], axis=1) for x in inputs)
    answers = []
    for (module, length), *own in zip(runs, *parts, strict=True):
        answer = modules[module](*(ops.reshape(x, [turns * length, *x.shape[2:]]) for x in own))
        answers.append(ops.reshape(answer, [turns, length, *answer.shape[1:]]))
    outputs = ops.concatenate(answers, axis=1)
    return ops.reshape(outputs, [turns * ends[-1], *outputs.shape[2:]])


def _masked(modules: Sequence[Module], inputs: Sequence[Any], choice: Any, counted: bool) -> Any:
    p = ops.one_hot(choice, len(modules), dtype=inputs[0].dtype)
    own = ([p[:, m]] if counted else [] for m in range(len(modules)))
    return mixture([module(*inputs, *weights) for module, weights in zip(modules, own, strict=True)], p)


def _sorted(modules: Sequence[Module], inputs: Sequence[Any], choice: Any, counted: bool) -> Any:
    import tensorflow as tf

    number, choice = len(modules), tf.convert_to_tensor(choice)
    places = tf.dynamic_partition(tf.range(tf.shape(choice)[0]), choice, number)
    columns = [*inputs, tf.ones_like(choice, inputs[0].dtype)] if counted else inputs
    parts = zip(*(tf.dynamic_partition(x, choice, number) for x in columns), strict=True)
    answers = []
    for module, part, place in zip(modules, parts, places, strict=True):
        count = tf.shape(place)[0]
        answers.append(module(*(_not_empty(x, count) for x in part))[:count])
    outputs = tf.dynamic_stitch(places, answers)
    return tf.ensure_shape(outputs, [inputs[0].shape[0], *answers[0].shape[1:]])


def _not_empty(x: Any, count: Any) -> Any:
    """Return a blank, uncounted example if there is none, because convolutions crash on empty input."""
    import tensorflow as tf

    blank = tf.cast(tf.equal(count, 0), tf.int32)
    return tf.pad(x, [[0, blank]] + [[0, 0]] * (len(x.shape) - 1))


def mixture(answers: Sequence[Any], p: Any) -> Any:
    """Return the sum over m of p_m answer_m.

    Args:
        answers: M tensors [B, ...].
        p: [B, M].
    """
    shape = [-1, *[1] * (len(answers[0].shape) - 1)]
    p = ops.cast(p, answers[0].dtype)
    return sum(ops.reshape(p[:, m], shape) * answer for m, answer in enumerate(answers))
