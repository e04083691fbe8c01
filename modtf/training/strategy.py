"""Where a model trains: one device, or several of this machine, over which members may be split."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import tensorflow as tf

from modtf.checks import check_choice
from modtf.models.base import ModularModel
from modtf.protocol import STRATEGIES
from modtf.training.batches import Batches
from modtf.training.compile import state_of
from modtf.training.steps import compiled_part, training_program


def choose_strategy(name: str, batch_size: int, num_members: int = 1) -> Any:
    """How several devices share the work; all local GPUs, or all logical CPU devices where there is no GPU.

    "mirrored": every device takes its part of every batch, whose size must be divisible by their number.
    "members": every device trains some of the members, without a word between them, which suits small models.
    "auto": one device, unless there are several GPUs: then "members", if there are as many members, else
    "mirrored".

    Returns:
        A `tf.distribute.MirroredStrategy`; the names of the devices over which `modtf.run_cell` splits the
        members of a population, a tuple; or None for the default device.
    """
    check_choice("strategy", name, STRATEGIES)
    gpus = tf.config.list_logical_devices("GPU")
    devices = [device.name for device in gpus or tf.config.list_logical_devices("CPU")]
    if name == "auto":
        if len(gpus) < 2:
            return None
        name = "members" if num_members >= len(gpus) else "mirrored"
    if name == "members":
        shared = tuple(devices[:num_members])
        return shared if len(shared) > 1 else None
    if batch_size % len(devices):
        raise ValueError(f"batch_size={batch_size} must be divisible by the {len(devices)} devices.")
    return tf.distribute.MirroredStrategy(devices)


def check_devices(names: Sequence[str]) -> None:
    """Raises `ValueError` on a device that is not there; "GPU:0", "/GPU:0" and "/device:GPU:0" are one."""
    known = {device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()}
    for name in names:
        if name.removeprefix("/").removeprefix("device:").upper() not in known:
            raise ValueError(f"devices: {name!r} is not known; expected one of {', '.join(sorted(known))}.")


def name_of(strategy: Any) -> str:
    """How a result's provenance names what `choose_strategy` gives."""
    if isinstance(strategy, tuple):
        return f"members on {len(strategy)} devices"
    count = 1 if strategy is None else strategy.num_replicas_in_sync
    return "one device" if count == 1 else f"mirrored on {count} devices"


def bounds(num_members: int, num_devices: int) -> list[tuple[int, int]]:
    """The first and the last member + 1 of every share, as even as can be; no more shares than members."""
    count = min(num_members, num_devices)
    return list(pairwise(-(-num_members * n // count) for n in range(count + 1)))


def in_shares(
    model: ModularModel, batches: Batches, count: int, devices: Sequence[str]
) -> tuple[Callable[[], None], Callable[[Any], None], Callable[[], None]]:
    """Members split over devices: each trains its share, and they never meet.

    Before and after, the model of all members holds everything: so callbacks, checkpoints and evaluations
    see one population, on its own device, as if it alone had been trained. A program takes `count` steps.

    Returns:
        What gives the shares the model's state; a program, as that of `training_program`; and what puts what
        the shares have learnt into the model.
    """
    cuts, parts, programs = bounds(model.num_members, len(devices)), [], []
    for device, (first, last) in zip(devices, cuts, strict=False):
        with tf.device(device):
            parts.append(compiled_part(model, first, last))
            programs.append(training_program(parts[-1], batches.share(first, last), count))

    def receive() -> None:
        for part, (first, last) in zip(parts, cuts, strict=True):
            for ours, its in zip(state_of(model), state_of(part), strict=True):
                its.assign(ours.value if ours.shape == its.shape else ours.value[first:last])
            for metric in part.metrics_variables:
                metric.assign(tf.zeros_like(metric.value))

    def train(given: Any) -> None:
        for device, program, cut in zip(devices, programs, cuts, strict=False):  # nothing orders them
            with tf.device(device):
                program(batches.cut(given, *cut))

    def hand_back() -> None:
        for ours, *its in zip(state_of(model), *map(state_of, parts), strict=True):
            same = ours.shape == its[0].shape
            ours.assign(its[0].value if same else tf.concat([share.value for share in its], axis=0))
        # each share has the mean loss of its members, whatever it counted
        for ours, *its in zip(model.metrics, *(part.metrics for part in parts), strict=True):
            counted = sum(mean.count.value for mean in its)
            means = [mean.total.value / mean.count.value for mean in its]
            sums = [part.num_members * mean for part, mean in zip(parts, means, strict=True)]
            ours.total.assign_add(counted * sum(sums) / model.num_members)
            ours.count.assign_add(counted)

    return receive, train, hand_back
