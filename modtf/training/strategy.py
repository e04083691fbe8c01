"""Where a model trains: one device, or several of this machine."""

from typing import Any

from modtf.checks import check_choice

STRATEGIES = ("auto", "mirrored", "members")


def choose_strategy(name: str, batch_size: int, num_members: int = 1) -> Any:
    """How several devices share the work; all local GPUs, or all logical CPU devices where there is no GPU.

    Args:
        name: "mirrored": every device takes its part of every batch. "members": every device trains some of
            the members, without a word between them, which suits small models. "auto": one device, unless
            there are several GPUs: then "members", if there are as many members, else "mirrored".
        batch_size: for "mirrored", divisible by the number of devices.
        num_members: of the population.

    Returns:
        A `tf.distribute.MirroredStrategy`; the names of the devices over which `modtf.run_cell` splits the
        members of a population, a tuple; or None for the default device.

    Raises:
        ValueError: on another name, or a batch that cannot be shared.
    """
    import tensorflow as tf

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
