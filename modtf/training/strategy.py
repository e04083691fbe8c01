"""Where a model trains: one device, or all local ones."""

from typing import Any


def choose_strategy(name: str, batch_size: int) -> Any:
    """A `tf.distribute.MirroredStrategy`, or None for the default device.

    Args:
        name: "mirrored": all local GPUs (all logical CPU devices where there is no GPU);
            "auto": the same where there are several GPUs, else None.
        batch_size: must be divisible by the number of replicas.

    Raises:
        ValueError: if it is not.
    """
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU")
    if name == "mirrored" and not devices:
        devices = tf.config.list_logical_devices("CPU")
    if name == "auto" and len(devices) < 2:
        return None
    if batch_size % len(devices):
        raise ValueError(f"batch_size={batch_size} must be divisible by the {len(devices)} devices.")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
