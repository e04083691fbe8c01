"""What the system says of the processor; no library is needed here."""

import platform
from pathlib import Path


def processor_lines(*names: str) -> list[str]:
    """What Linux says of the processor under names such as "flags", each line once; else nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return sorted({line for line in lines if line.startswith(names)})


def processor_name() -> str:
    """Its model, as the system names it."""
    named = next(iter(processor_lines("model name")), "").partition(":")[2].strip()
    return named or platform.processor()
