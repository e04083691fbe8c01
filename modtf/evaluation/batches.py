"""What evaluations read. Building a pipeline costs more than a small evaluation, so it is built once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from modtf import metrics
from modtf.datasets.device import DeviceStream
from modtf.datasets.streaming import stream
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
        arrays = {name: v for name, v in values.items() if isinstance(v, np.ndarray)}
        signature = {**values, **{name: (v.shape, v.dtype.str) for name, v in arrays.items()}}
        return cls(tuple(sorted((name, repr(value)) for name, value in signature.items())), values)

    def with_variables(self) -> tuple[dict[str, Any], dict[str, tf.Variable]]:
        """All values, the arrays as variables; and the variables."""
        arrays = {name: v for name, v in self.values.items() if isinstance(v, np.ndarray)}
        with tf.device("CPU:0"):
            variables = {name: tf.Variable(value, trainable=False) for name, value in arrays.items()}
        return {**self.values, **variables}, variables


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
    given, build = _Options.of(options), _on_device if on_device else _on_host
    source, variables = build(population, output, batch_size, split, draws, given, **of_stream)
    if variables:
        source.close()  # its iterators have read ahead
    for name, variable in variables.items():
        variable.assign(given.values[name])
    return source


@lru_cache(KEPT)
def _on_host(
    population: Population, output: str, batch_size: int, split: str, draws: int | None, given: _Options,
    **of_stream: Any,
) -> tuple[Source, dict[str, tf.Variable]]:  # fmt: skip
    options, variables = given.with_variables()
    needed = _needed(population, output, draws, tf.cast)
    of_stream |= _rule_probs(population, draws)
    batches = stream(population, batch_size, split, options=options, **of_stream)
    return Source(batches.enumerate().map(lambda step, batch: needed(step, *batch))), variables


@lru_cache(KEPT)
def _on_device(
    population: Population, output: str, batch_size: int, split: str, draws: int | None, given: _Options,
    **of_stream: Any,
) -> tuple[Source, dict[str, tf.Variable]]:  # fmt: skip
    options, variables = given.with_variables()
    needed = _needed(population, output, draws, ops.cast)
    of_stream |= _rule_probs(population, draws)
    made = DeviceStream(population, batch_size, split, options=given.values, **of_stream)
    arrays = {**made.given, "options": {**made.given["options"], **variables}}

    def make(element: Any) -> Any:
        features, target = made.make(element["step"], given=element["given"])
        return needed(element["step"], {name: values[0] for name, values in features.items()}, target[0])

    def element(step: tf.Tensor) -> dict[str, Any]:
        return {"step": tf.cast(step, tf.int32), "given": tf.nest.map_structure(tf.convert_to_tensor, arrays)}

    program = (population, made.plan.batch_size, made.plan.num_tokens, draws, given.signature)
    return Source(tf.data.Dataset.counter().map(element), make, program), variables


def _rule_probs(population: Population, draws: int | None) -> dict[str, Any]:
    return (
        {} if draws is None else {"rule_probs": metrics.rule_distributions(population.task.num_rules, draws)}
    )


def _needed(
    population: Population, output: str, draws: int | None, cast: Callable[..., Any]
) -> Callable[[Any, Any, Any], Any]:
    """(step, features, target) -> (features, {output: what its metric needs}), as `evaluation_batches` says.

    Args:
        cast: to a dtype, in the pipeline's or the program's own operations.
    """

    def needed(step: Any, features: Any, target: Any) -> Any:
        if output == "target":
            return features, {output: target}
        rule = features["rule"]
        return features, {output: rule + population.task.num_rules * cast(step % (draws or 1), rule.dtype)}

    return needed
