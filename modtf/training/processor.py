"""The system's description of the processor; needs no other library."""

import platform
from pathlib import Path


def processor_name() -> str:
    """Return the processor's model, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = min((line for line in lines if line.startswith("model name")), default="").partition(":")[2]
    return named.strip() or platform.processor()
