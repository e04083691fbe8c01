"""Where data are made, and what evaluations read, through pipelines that are built once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache, reduce
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from modtf import metrics
from modtf.checks import check_choice
from modtf.condition import Condition
from modtf.datasets import host_ops
from modtf.datasets.device import DeviceStream, runs_on_device
from modtf.datasets.plan import StreamPlan
from modtf.datasets.streaming import dataset
from modtf.evaluation.source import Source
from modtf.families import Family
from modtf.models.kernels.by_device import on_cpu
from modtf.population import Population
from modtf.protocol import PLACES


def choose_place(name: str, family: Family, why_not: str | None = None) -> str:
    """Where the data of a family are made: "host" or "device".

    Args:
        name: "auto" is the device on an accelerator, which no host can feed, and the host on a CPU, where
            numbers are made several times faster outside XLA.
        family: of the tasks.
        why_not: what else keeps data from being made by a compiled program, in words.

    Raises:
        ValueError: on another name.
    """
    check_choice("data", name, PLACES)
    if name == "host" or (name == "auto" and on_cpu()):
        return "host"
    if keras.backend.backend() != "tensorflow":
        why_not = why_not or f"Keras runs on {keras.backend.backend()}, not on TensorFlow"
    elif not runs_on_device(family):
        why_not = why_not or f"those of the family {family.name!r} are written for the host alone"
    if why_not is None:
        return "device"
    _say(f"data={name}: data are made on the host, because {why_not}.")
    return "host"


@cache
def _say(line: str) -> None:
    """Prints a line once, however many parts of a training ask."""
    print(line)


def alike(conditions: Sequence[Condition]) -> list[tuple[Condition, ...]]:
    """Conditions in groups that one pipeline and one program serve: they differ in the values of arrays."""
    groups: dict[Any, list[Condition]] = {}
    for condition in conditions:
        groups.setdefault(condition.form if condition.arrays else condition.name, []).append(condition)
    return [tuple(group) for group in groups.values()]


@lru_cache(1)
def _pipelines(population: Population) -> dict[Any, Source]:
    """Those of one population, which its variants and widths share. What waits in them holds threads and
    memory, 28 and 22 MB a cell, so those of the population before are forgotten."""
    return {}


def evaluation_batches(population: Population, *which: Any) -> Source:
    """`make_batches`, built once for all models of a population."""
    known = _pipelines(population)
    if which not in known:
        known[which] = make_batches(population, *which)
    return known[which]


def make_batches(
    population: Population,
    output: str,
    batch_size: int,
    split: str,
    conditions: tuple[Condition, ...],
    draws: int | None = None,
    on_device: bool = False,
) -> Source:
    """A source of (features, {output: what its metric needs}) under conditions that are `alike`, in turn.

    For the output "target" that is the target, for "activation" rule + R * draw of every token.

    Args:
        population: whose seeds are those of the evaluation.
        output: of the model.
        batch_size: examples at once.
        split: "validation" or "test".
        conditions: one after the other.
        draws: batches follow so many rule distributions in turn; by default all follow the uniform one.
        on_device: whether the source says which batch, for a program that makes it.
    """
    num_rules, of_stream = population.task.num_rules, conditions[0].stream_options()
    if draws is not None:
        of_stream["rule_probs"] = metrics.rule_distributions(num_rules, draws)

    def needed(step: Any, features: Any, target: Any) -> Any:
        if output == "target":
            return features, {output: target}
        draw = (ops.cast if on_device else tf.cast)(step % (draws or 1), features["rule"].dtype)
        return features, {output: features["rule"] + num_rules * draw}

    if not on_device:
        plan = StreamPlan.of(population, host_ops, batch_size, split, **of_stream)

        def under(arrays: dict[str, tf.Tensor], begin: int, end: int) -> tf.data.Dataset:
            made = dataset(replace(plan, options={**plan.options, **arrays}), begin).take(end - begin)
            return made.enumerate(begin).map(lambda step, batch: needed(step, *batch))

        if len(conditions) == 1:
            return Source(lambda steps, first, last: under({}, first * steps, last * steps))
        arrays = tf.data.Dataset.from_tensor_slices(_stacked([c.arrays for c in conditions]))

        def shares(steps: int, first: int, last: int) -> tf.data.Dataset:
            def of(number: int) -> tf.data.Dataset:
                return arrays.flat_map(lambda a: under(a, number * steps, (number + 1) * steps))

            return reduce(tf.data.Dataset.concatenate, map(of, range(first, last)))

        return Source(shares, count=len(conditions))

    stream, count = DeviceStream(population, batch_size, split, **of_stream), len(conditions)
    own = stream.given["options"]
    given = _stacked([{**stream.given, "options": {**own, **condition.arrays}} for condition in conditions])

    def make(element: Any) -> Any:
        features, target = stream.make(element["step"], given=element["given"])
        return needed(element["step"], {name: values[0] for name, values in features.items()}, target[0])

    def elements(steps: int, first: int, last: int) -> tf.data.Dataset:
        def element(place: tf.Tensor) -> dict[str, Any]:
            which, share = place // steps % count, place // (count * steps)
            of_condition = tf.nest.map_structure(lambda values: tf.gather(values, which), given)
            return {"step": tf.cast(share * steps + place % steps, tf.int32), "given": of_condition}

        return tf.data.Dataset.range(first * count * steps, last * count * steps).map(element)

    plan = stream.plan
    program = (population, plan.batch_size, plan.num_tokens, draws, conditions[0].form_of_options)
    return Source(elements, make, program, count)


def _stacked(trees: Sequence[Any]) -> Any:
    return tf.nest.map_structure(lambda *values: np.stack(values), *trees)
