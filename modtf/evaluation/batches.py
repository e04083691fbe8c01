"""The pipelines that evaluations read, built once, and the choice where data are made."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import keras
import numpy as np
from etils import epy
from keras import ops

from modtf import metrics
from modtf.base.checks import check_choice
from modtf.datasets.device import DeviceStream
from modtf.datasets.families.base import data_class
from modtf.datasets.plan import StreamPlan
from modtf.evaluation.programs import pipelines_of, waiting_iterators
from modtf.models.kernels.by_device import on_cpu
from modtf.tasks.condition import Condition
from modtf.tasks.families import Family
from modtf.tasks.population import Population
from modtf.tasks.protocol import PLACES
from modtf.xla.switches import with_64_bits

with epy.lazy_imports():  # a process needs one of them
    import jax
    import tensorflow as tf

    from modtf.datasets import host_ops, streaming

Needed = Callable[[Any, Any, Any], Any]  # (step, features, target) -> what an accumulator reads
LARGEST_KEPT = 1 << 24  # bytes of a batch; a waiting iterator holds a few batches
LARGEST_CACHED = 1 << 27  # bytes of all batches of a source that keeps them


def choose_place(name: str, family: Family, why_not: str | None = None) -> str:
    """Return where the data of a family are made: "host" or "device".

    "auto" is the device on an accelerator, which no host can feed fast enough, and with JAX, which then needs
    no TensorFlow. It is the host on a CPU, where numbers are made several times faster outside XLA. `why_not`
    names another obstacle to the device.
    """
    check_choice("data", name, PLACES)
    if name == "host" or (name == "auto" and on_cpu() and keras.backend.backend() == "tensorflow"):
        return "host"
    if not data_class(family).runs_on_device:
        why_not = why_not or f"those of the family {family.name!r} can be made on the host only"
    if why_not is None:
        return "device"
    _say(f"data={name}: data are made on the host, because {why_not}.")
    return "host"


@cache
def _say(line: str) -> None:
    """Print a line once, however many parts of a training request it."""
    print(line)


def alike(conditions: Sequence[Condition]) -> list[tuple[Condition, ...]]:
    """Return conditions in groups that one pipeline and one program serve: all shapes of a group are equal,
    but the factors on the inputs and the values of arrays may differ."""
    groups: dict[Any, list[Condition]] = {}
    for condition in conditions:
        groups.setdefault((condition.seq_len, condition.split, condition.form_of_options), []).append(
            condition
        )
    return [tuple(group) for group in groups.values()]


def _arrays(conditions: Sequence[Condition]) -> list[dict[str, np.ndarray]]:
    """Return the differences between conditions that are `alike`, as arrays by name."""
    scales = {condition.scale for condition in conditions}
    return [
        {**one.arrays, **({"scale": np.array(one.scale, np.float64)} if len(scales) > 1 else {})}
        for one in conditions
    ]


class Source:
    """Datasets from which evaluations read shares of batches, one after the other, through one pipeline.

    A dataset's iterator is kept, because starting one costs as much as a small evaluation: TensorFlow
    prepares the pipeline's functions anew. It continues with the next share, and after the last with the
    first.

    Args:
        shares: (steps, first share, share after the last) -> a dataset, or with JAX any iterable, that
            yields, for each share, the steps of each of the `count` datasets in turn.
        make: turns an element into (features, {output: input of its metric}) in a compiled program; None if
            the dataset yields that already.
        program: sources with equal keys share compiled programs; their elements carry the differences.
        count: number of datasets.
        cached: whether batches stay in memory for the next model, up to `LARGEST_CACHED` bytes.
        grey: whether the three channels of the inputs are equal; memory then holds one.
    """

    def __init__(
        self,
        shares: Callable[[int, int, int], Any],
        make: Callable[[Any], Any] | None = None,
        program: Hashable = None,
        count: int = 1,
        cached: bool = False,
        grey: bool = False,
    ):
        self._shares, self.make, self.program, self.count = shares, make, program, count
        self._cached, self._grey = cached, grey

    @contextlib.contextmanager
    def share(self, steps: int, number: int = 0, of: int = 1) -> Iterator[Any]:
        """Return an iterator over `count * steps` elements, `steps` of each dataset. All must be read.

        Share 0 of 1 is always the first steps. Share n of N starts at step n * steps.
        """
        if self.make is not None and keras.backend.backend() == "jax":
            yield iter(self._shares(steps, number, number + 1))
            return
        # (steps of a share, shares) -> its next share, the iterator
        waiting = waiting_iterators.setdefault(self, {})
        waits_at, iterator = waiting.pop((steps, of), (number, None))
        if iterator is None or waits_at != number:
            quick = tf.data.Options()
            quick.experimental_optimization.apply_default_optimizations = False
            quick.autotune.enabled = False  # it keeps one thread per iterator busy, even while it waits
            dataset = self._shares(steps, 0, of)
            kept = _channels(dataset, lambda x: x[..., :1]) if self._grey else dataset
            if self._cached and self.count * steps * of * _size(kept) <= LARGEST_CACHED:
                dataset = kept.cache()
                if self._grey:
                    dataset = _channels(dataset, lambda x: tf.repeat(x, 3, axis=-1))
            dataset = dataset.repeat()
            if not _is_small(dataset):
                dataset = self._shares(steps, number, number + 1)
            elif number:  # training was interrupted
                dataset = self._shares(steps, number, of).concatenate(dataset)
            iterator = iter(dataset.with_options(quick))
        yield iterator
        if _is_small(iterator):  # only at the end: an interrupted one is not at the start of a share
            waiting[steps, of] = (number + 1) % of, iterator


def _channels(batches: tf.data.Dataset, change: Callable[[Any], Any]) -> tf.data.Dataset:
    """Return batches with other channels of their inputs."""
    return batches.map(lambda features, read: ({**features, "inputs": change(features["inputs"])}, read))


def _size(elements: Any) -> int:
    """Return the bytes of an element."""
    specs = tf.nest.flatten(elements.element_spec)
    return sum(math.prod(spec.shape) * spec.dtype.size for spec in specs)


def _is_small(elements: Any) -> bool:
    return _size(elements) <= LARGEST_KEPT


def evaluation_batches(population: Population, *which: Any) -> Source:
    """Return the result of `make_batches`, built once for all models of a population."""
    return pipelines_of(population).get_or_make(which, lambda: make_batches(population, *which))


def make_batches(
    population: Population,
    output: str,
    batch_size: int,
    split: str,
    conditions: tuple[Condition, ...],
    draws: int | None = None,
    on_device: bool = False,
) -> Source:
    """Return a source of (features, {output: the input of its metric}) under conditions that are `alike`.

    For the output "target" the input is the target. For "activation" it is rule + R * draw of every token:
    batches follow `draws` rule distributions in turn, by default the uniform one. On a device the source only
    names the batch, and a program makes it.
    """
    num_rules, options = population.task.num_rules, conditions[0].stream_options()
    if draws is not None:
        options["rule_probs"] = metrics.rule_distributions(num_rules, draws)

    def needed(step: Any, features: Any, target: Any) -> Any:
        if output == "target":
            return features, {output: target}
        cast = ops.cast if on_device else tf.cast
        draw = cast(step % (draws or 1), features["rule"].dtype)
        return features, {output: features["rule"] + num_rules * draw}

    if on_device:
        stream = DeviceStream(population, batch_size, split, **options)
        return _on_device(stream, conditions, draws, needed)
    plan = StreamPlan.of(population, host_ops, batch_size, split, **options)
    # members that train alone take turns: every variant reads the batches of each of them
    keeps = {"cached": not population.has_axis, "grey": plan.data.grey}
    return _on_host(streaming.pipeline(plan), conditions, needed, **keeps)


def _on_host(
    starting_at: Callable[..., Any], conditions: Sequence[Condition], needed: Needed, **keeps: Any
) -> Source:
    count = len(conditions)

    def under(arrays: dict[str, tf.Tensor], begin: Any, end: Any) -> tf.data.Dataset:
        batches = starting_at(begin, arrays).take(end - begin)
        return batches.enumerate(begin).map(lambda step, batch: needed(step, *batch))

    if count == 1:
        return Source(lambda steps, first, last: under({}, first * steps, last * steps), **keeps)
    stacked = _stacked(_arrays(conditions))

    def share(place: tf.Tensor, steps: int) -> tf.data.Dataset:
        number, index = place // count, place % count
        return under(_at(stacked, index), number * steps, (number + 1) * steps)

    def shares(steps: int, first: int, last: int) -> tf.data.Dataset:
        return tf.data.Dataset.range(first * count, last * count).flat_map(lambda place: share(place, steps))

    return Source(shares, count=count, **keeps)


def _on_device(
    stream: DeviceStream, conditions: Sequence[Condition], draws: int | None, needed: Needed
) -> Source:
    count, plan, own = len(conditions), stream.plan, stream.given["options"]
    by_jax = keras.backend.backend() == "jax"
    stacked = _stacked([{**stream.given, "options": {**own, **arrays}} for arrays in _arrays(conditions)])

    def make(element: Any) -> Any:
        features, target = stream.make(element["step"], given=element["given"])
        return needed(element["step"], {name: values[0] for name, values in features.items()}, target[0])

    def element(place: Any, steps: int) -> dict[str, Any]:
        index, share = place // steps % count, place // (count * steps)
        step = share * steps + place % steps
        return {"step": np.int32(step) if by_jax else tf.cast(step, tf.int32), "given": _at(stacked, index)}

    def elements(steps: int, first: int, last: int) -> tf.data.Dataset | Iterable[Any]:
        places = first * count * steps, last * count * steps
        if by_jax:
            return (element(place, steps) for place in range(*places))
        return tf.data.Dataset.range(*places).map(lambda place: element(place, steps))

    form = conditions[0].form_of_options
    split = None if vars(type(plan.data)).get("splits_share_programs") else plan.data.split
    program = (stream.population, split, plan.dtype, plan.batch_size, plan.num_tokens, draws, form)
    return Source(elements, make, program, count)


def _stacked(trees: Sequence[Any]) -> Any:
    return keras.tree.map_structure(lambda *values: np.stack(values), *trees)


def _at(stacked: Any, index: Any) -> Any:
    take = operator.getitem if isinstance(index, int) else tf.gather
    return keras.tree.map_structure(lambda values: take(values, index), stacked)


def first_batches(
    population: Population, batch_size: int, split: str, count: int = 1, **condition: Any
) -> list[tuple[Any, Any]]:
    """Return the first batches of a stream, which JAX makes without TensorFlow if the family allows it."""
    if keras.backend.backend() != "jax" or choose_place("auto", population.family) == "host":
        return list(streaming.stream(population, batch_size, split, **condition).take(count))
    make = jax.jit(DeviceStream(population, batch_size, split, **condition).make)
    with with_64_bits():
        made = [make(np.int32(step)) for step in range(count)]
    return keras.tree.map_structure(lambda values: values[0], made)
