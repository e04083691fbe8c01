"""What evaluations read. Building a pipeline costs more than a small evaluation, so it is built once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from modtf import metrics
from modtf.datasets import host_ops
from modtf.datasets.device import DeviceStream
from modtf.datasets.plan import StreamPlan
from modtf.datasets.streaming import dataset
from modtf.evaluation.source import Source
from modtf.population import Population

KEPT = 64  # pipelines of a process; cells of other variants and widths have the same


@dataclass(frozen=True)
class _Options:
    """Options of a condition. Arrays of the same shape and type are equal: one pipeline serves them all."""

    signature: tuple[Any, ...]
    values: dict[str, Any] = field(compare=False)

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> "_Options":
        values = dict(options or {})
        shown = {n: (v.shape, v.dtype) if isinstance(v, np.ndarray) else v for n, v in values.items()}
        return cls(tuple(sorted((name, repr(value)) for name, value in shown.items())), values)


def evaluation_batches(
    population: Population,
    output: str,
    batch_size: int,
    split: str,
    draws: int | None = None,
    *,
    on_device: bool = False,
    options: Mapping[str, Any] | None = None,
    **of_stream: Any,
) -> Source:
    """An endless source of (features, {output: what its metric needs}).

    For the output "target" that is the target, for "activation" rule + R * draw of every token. Conditions
    whose options have arrays of the same shapes share one source: read it before asking for the next one.

    Args:
        population: whose seeds are those of the evaluation.
        output: of the model.
        batch_size: examples at once.
        split: "validation" or "test".
        draws: batches follow so many rule distributions in turn; by default all follow the uniform one.
        on_device: whether the source says which batch, for a program that makes it.
        options, **of_stream: of `modtf.stream`.
    """
    given = _Options.of(options)
    source, variables = _build(population, output, batch_size, split, draws, on_device, given, **of_stream)
    for name, variable in variables.items():
        variable.assign(given.values[name])
    return source


@lru_cache(KEPT)
def _build(
    population: Population,
    output: str,
    batch_size: int,
    split: str,
    draws: int | None,
    on_device: bool,
    given: _Options,
    **of_stream: Any,
) -> tuple[Source, dict[str, tf.Variable]]:
    """The source, and the variables that hold the arrays among the options."""
    num_rules = population.task.num_rules
    if draws is not None:
        of_stream["rule_probs"] = metrics.rule_distributions(num_rules, draws)
    arrays = {name: value for name, value in given.values.items() if isinstance(value, np.ndarray)}
    with tf.device("CPU:0"):
        variables = {name: tf.Variable(value, trainable=False) for name, value in arrays.items()}

    def needed(step: Any, features: Any, target: Any) -> Any:
        if output == "target":
            return features, {output: target}
        draw = (ops.cast if on_device else tf.cast)(step % (draws or 1), features["rule"].dtype)
        return features, {output: features["rule"] + num_rules * draw}

    if not on_device:
        of_stream["options"] = {**given.values, **variables}
        plan = StreamPlan.of(population, host_ops, batch_size, split, **of_stream)
        batches = dataset(plan, ahead=not variables)
        return Source(batches.enumerate().map(lambda step, batch: needed(step, *batch))), variables

    device = DeviceStream(population, batch_size, split, options=given.values, **of_stream)
    numbers = {**device.given, "options": {**device.given["options"], **variables}}

    def make(element: Any) -> Any:
        features, target = device.make(element["step"], given=element["given"])
        return needed(element["step"], {name: values[0] for name, values in features.items()}, target[0])

    def element(step: tf.Tensor) -> dict[str, Any]:
        return {
            "step": tf.cast(step, tf.int32), "given": tf.nest.map_structure(tf.convert_to_tensor, numbers)
        }  # fmt: skip

    program = (population, device.plan.batch_size, device.plan.num_tokens, draws, given.signature)
    return Source(tf.data.Dataset.counter().map(element), make, program), variables
