"""The software, processor and devices behind a result. They affect no hash and no random number."""

import platform
from typing import Any

from modtf.training.processors import processor_name
from modtf.version import __version__


def accelerators() -> list[str]:
    """Return the names of the devices that TensorFlow finds besides the CPU."""
    import tensorflow as tf

    return [
        tf.config.experimental.get_device_details(device).get("device_name", device.name)
        for device in tf.config.list_physical_devices()
        if device.device_type != "CPU"
    ]


def provenance(precision: str) -> dict[str, Any]:
    """Return what may change the last digits of results, JSON-able; `precision` is of matrix products."""
    import keras
    import numpy as np
    import tensorflow as tf

    return {
        "modtf": __version__,
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "backend": keras.backend.backend(),
        "system": platform.platform(),
        "processor": processor_name(),
        "accelerators": ", ".join(accelerators()) or "none",
        "precision": precision,
    }
