"""The source of a training program's batches: a pipeline of the host, or the program itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import keras
import numpy as np
from etils import epy
from keras import ops

from modtf.datasets.device import DeviceStream
from modtf.models.kernels.by_device import ACCELERATOR, kernels

with epy.lazy_imports():  # JAX makes data without it
    import tensorflow as tf


class HostBatches:
    """Batches of a dataset of (features, target) or (features, {output: target}), stacked.

    `read` takes the argument of a program from an iterator. The program calls `stack` and `of_member` on it.
    """

    def __init__(self, dataset: tf.data.Dataset):
        named = isinstance(dataset.element_spec[1], dict)
        self.dataset = dataset if named else dataset.map(_with_names)

    def feed(self, per_program: int) -> tf.data.Dataset:
        """Return the iterable for `fit`."""
        return self.dataset

    @property
    def program(self) -> Hashable:
        """A key: batches with equal keys can be read by the same program."""
        return repr(self.dataset.element_spec)

    @property
    def bytes_per_step(self) -> int:
        specs = tf.nest.flatten(self.dataset.element_spec)
        if not all(spec.shape.is_fully_defined() for spec in specs):
            raise ValueError(
                f"The batches of a stream must have the same shape, received {self.dataset.element_spec}. "
                "Use `.batch(..., drop_remainder=True)`."
            )
        return sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)

    def read(self, iterator: Any, count: int) -> Any:
        """Return the next `count` batches, [K, B, ...]."""
        batches = [next(iterator) for _ in range(count)]
        return tf.nest.map_structure(lambda *one_by_one: ops.stack(one_by_one), *batches)

    def stack(self, element: Any, count: int) -> Any:
        """Return all batches: (features, target) with tensors [K, B, ...]."""
        return element

    def of_member(self, element: Any, count: int, member: Any) -> Any:
        """Return the batches of one member, [K, B, 1, ...]."""
        return tf.nest.map_structure(lambda stacked: stacked[:, :, member, None], element)

    def share(self, first: int, last: int) -> HostBatches:
        """Return the batches of members first ... last - 1. They receive the result of `cut`."""
        return self

    def cut(self, element: Any, first: int, last: int) -> Any:
        return tf.nest.map_structure(lambda stacked: stacked[:, :, first:last], element)


class DeviceBatches:
    """Batches that the program itself makes, counted from `start_step`. The methods match `HostBatches`."""

    def __init__(self, stream: DeviceStream, start_step: int = 0):
        self.stream, self.start_step = stream, start_step

    def feed(self, per_program: int) -> Iterable[Any]:
        if keras.backend.backend() == "jax":
            return ((np.int32(step),) for step in itertools.count(self.start_step, per_program))
        return tf.data.Dataset.counter(self.start_step, per_program)

    @property
    def program(self) -> Hashable:
        population = self.stream.population
        return population, population.family, self.stream.plan.batch_size

    @property
    def bytes_per_step(self) -> int:
        return self.stream.bytes_per_step

    def read(self, iterator: Any, count: int) -> Any:
        return next(iterator)

    def stack(self, element: Any, count: int) -> Any:
        if keras.backend.backend() == "jax":
            at_once = kernels() == ACCELERATOR
            return _with_names(*self.stream.make(element[0], count, at_once=at_once))
        return _with_names(*self.stream.make(element, count))

    def of_member(self, element: Any, count: int, member: Any) -> Any:
        return _with_names(*self.stream.make(element, count, member=member))

    def share(self, first: int, last: int) -> DeviceBatches:
        whole, plan = self.stream.population, self.stream.plan
        part = replace(whole, tasks=whole.tasks[first:last], seeds=whole.seeds[first:last])
        return DeviceBatches(DeviceStream(part, plan.batch_size), self.start_step)

    def cut(self, element: Any, first: int, last: int) -> Any:
        return element


Batches = HostBatches | DeviceBatches
#: an endless dataset, or a function of the first step that makes one; None for the task's own stream
Stream: TypeAlias = "tf.data.Dataset | Callable[[int], tf.data.Dataset] | None"


def _with_names(features: Any, target: Any) -> Any:
    return features, {"target": target}
