"""The machine: the software, processor and devices behind a result, and how workers share its processors.

None of it affects a hash or a random number.
"""

import os
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

from modtf.base.version import __version__


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    """Return the processor's model, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = min((line for line in lines if line.startswith("model name")), default="").partition(":")[2]
    return named.strip() or platform.processor()


def default_workers() -> int:
    """Return one worker per processor, because small models leave a second thread idle; one with a GPU."""
    return 1 if has_gpu() else processors()


def has_gpu() -> bool:
    """Return whether this machine has a GPU of NVIDIA, without TensorFlow."""
    return Path("/dev/nvidiactl").exists()


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment that limits TensorFlow and its libraries to `threads` threads, if it is set
    before they are loaded."""
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def accelerators() -> list[str]:
    """Return the names of the devices that TensorFlow or JAX finds besides the CPU."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        return [device.device_kind for device in jax.devices() if device.platform != "cpu"]
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

    backend = keras.backend.backend()
    return {
        "modtf": __version__,
        "python": platform.python_version(),
        backend: import_module(backend).__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "backend": backend,
        "system": platform.platform(),
        "processor": processor_name(),
        "accelerators": ", ".join(accelerators()) or "none",
        "precision": precision,
    }
