"""The processors of a machine, and how workers share them; needs no other library."""

import os
import platform
from pathlib import Path


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
    return 1 if Path("/dev/nvidiactl").exists() else processors()


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment that limits TensorFlow and its libraries to `threads` threads, if it is set
    before they are loaded."""
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(threads))
