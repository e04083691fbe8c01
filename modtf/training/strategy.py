"""The devices that a model trains on: one, or several of this machine that share batches or members."""

from collections.abc import Sequence
from typing import Any

import keras
from etils import epy

from modtf.base.checks import check_choice, check_names
from modtf.tasks.protocol import STRATEGIES

with epy.lazy_imports():  # other backends train on one device
    import tensorflow as tf


def choose_strategy(name: str, batch_size: int, num_members: int = 1) -> Any:
    """Return how several devices share the work: all local GPUs, or all logical CPU devices without a GPU.

    Args:
        name: "mirrored": every device takes a part of every batch. "members": every device trains some
            members without communication, which suits small models. "auto": one device; with several GPUs
            "members", if there is a member for each, else "mirrored".
        batch_size: examples per member and step; for "mirrored" a multiple of the number of devices.
        num_members: members of the population.

    Returns:
        A `tf.distribute.MirroredStrategy`; a tuple of device names over which `modtf.run_cell` splits the
        members; or None for the default device.

    Raises:
        ValueError: if the name is unknown, or the batch size is not such a multiple; or if another backend
            than TensorFlow is asked for several devices.
    """
    check_choice("strategy", name, STRATEGIES)
    if (backend := keras.backend.backend()) != "tensorflow":
        if name != "auto":
            raise ValueError(
                f"strategy={name!r} needs TensorFlow, but Keras runs on {backend}. Leave it out."
            )
        return None
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
        raise ValueError(
            f"batch_size={batch_size} is not valid; expected a multiple of {len(devices)}, the number of "
            "devices."
        )
    return tf.distribute.MirroredStrategy(devices)


def check_devices(names: Sequence[str]) -> None:
    """Raise `ValueError` if a device is absent; "GPU:0", "/GPU:0" and "/device:GPU:0" are equal."""
    if names and (backend := keras.backend.backend()) != "tensorflow":
        raise ValueError(f"devices={[*names]} need TensorFlow, but Keras runs on {backend}. Leave them out.")
    known = names and {device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()}
    for name in names:
        if name.removeprefix("/").removeprefix("device:").upper() not in known:
            raise ValueError(f"devices: {name!r} is not known; expected one of {', '.join(sorted(known))}.")


def check_strategy(strategy: Any) -> None:
    """Raise `ValueError` unless it is a result of `choose_strategy`."""
    if isinstance(strategy, tuple):
        check_devices(check_names("strategy", strategy))
    elif strategy is not None and not isinstance(strategy, tf.distribute.Strategy):
        raise ValueError(
            f"strategy={strategy!r} is not valid; expected a tf.distribute.Strategy, names of devices, or "
            "None."
        )


def name_of(strategy: Any) -> str:
    """Return the name of a result of `choose_strategy` in the provenance."""
    if isinstance(strategy, tuple):
        return f"members on {len(strategy)} devices"
    count = 1 if strategy is None else strategy.num_replicas_in_sync
    return "one device" if count == 1 else f"mirrored on {count} devices"
