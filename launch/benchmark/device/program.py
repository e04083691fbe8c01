"""What is timed, whatever the backend."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StepProgram:
    """A compiled program of several training steps, with the data that they read."""

    run: Callable[[int], None]  # takes so many programs, and returns when the device has done them
    steps: int  # of one
    compile_s: float
    program_bytes: int | None  # arguments, results and temporaries; None where the compiler does not say


def wall_seconds(action: Callable[[], Any]) -> float:
    """Wall seconds of an action that returns when all that it began is done."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
