"""Timing of programs that take turns, in seconds per step, and the baselines that are timed alongside.

This module imports neither Keras nor TensorFlow.
"""

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from modtf.base.registry import Registry

Clock = Callable[[], float]
Run = Callable[[int], float]  # does about n steps and returns the seconds of one

#: name -> seconds. CPU time of all threads: what a step costs on one core, whoever else is using the machine.
#: Wall time: what it takes on a device, up to where that says it is done.
CLOCKS: Mapping[str, Clock] = {"cpu": time.process_time, "wall": time.perf_counter}

BATCH_SIZE = 256  # of what is measured
SETTLING = 0.05  # seconds
ENOUGH = 3  # measurements of a program that takes long

#: what plug-ins register to be measured, too: a function of a modtf model that returns a compiled Keras model
#: of the same task and the dataset that its `fit` reads, or None where it has no form of that one
BASELINES: Registry[Callable[[Any], tuple[Any, Any] | None]] = Registry("baseline")


@dataclass(frozen=True)
class StepProgram:
    """A compiled program of several training steps, with the data that they read."""

    call: Callable[[int], object]  # takes so many programs, and returns when all are done
    steps: int  # of one
    compile_s: float
    program_bytes: int | None  # arguments, results and temporaries; None where the compiler does not say


def timed(clock: Clock, action: Callable[[], object]) -> float:
    """Return the clock's time of an action that returns when all its work is done."""
    began = clock()
    action()
    return clock() - began


def run_of(clock: Clock, call: Callable[[int], object], steps: int = 1) -> Run:
    """Return a timed run of a function that takes `steps` steps per call, and waits for the last."""

    def run(wanted: int) -> float:
        times = -(-wanted // steps)
        return timed(clock, lambda: call(times)) / (times * steps)

    return run


def calibrate(run: Run, seconds: float) -> int:
    """Return the number of steps that take about `seconds`; at least 1."""
    run(1)  # the first time may compile
    steps = 1
    while True:
        took = run(steps)
        wanted = max(1, math.ceil(seconds / max(took, 1e-9)))
        if wanted <= 2 * steps:
            return wanted
        steps = min(wanted, 16 * steps)


def settle() -> None:
    """Wait for the last program's threads and garbage, so that they do not count for the next program."""
    gc.collect()
    time.sleep(SETTLING)


def interleave(runs: Mapping[str, Run], repeats: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds per step by name, measured in turn (A B C A B C ...) for equal conditions.

    Entry i of every name is from the same round. A measurement takes at least about `seconds`. Slow programs
    are measured `ENOUGH` times.
    """
    steps = {name: calibrate(run, seconds) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            spent = steps[name] * sum(samples[name])
            if len(samples[name]) < ENOUGH or spent < 2 * repeats * seconds:
                settle()
                samples[name].append(run(steps[name]))
    return samples


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median over rounds of above / below: disturbances of a round cancel."""
    return median(a / b for a, b in zip(above, below, strict=False))
