"""CPU time on one core: what a step costs, whoever else is using the machine. No TensorFlow here."""

import contextlib
import gc
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

# Does about n steps and returns the CPU seconds of one
Run = Callable[[int], float]

BATCH_SIZE = 256  # of what is measured
PEAK_SIZE = 1024  # rows and columns of the matrices whose product is the core's peak
PEAK_FLOPS = 2 * PEAK_SIZE**3

SETTLING = 0.05  # seconds
ENOUGH = 3  # measurements of a program that takes long


def one_core_environment(backend: str) -> dict[str, str]:
    """Environment variables for a process that computes on one thread of the CPU; set before Keras."""
    threads = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {
        **dict.fromkeys(threads, "1"),
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def pin_to_one_core() -> None:
    """Keeps this process on one core, so that every thread pool started later has one thread."""
    if hasattr(os, "sched_setaffinity"):  # Linux
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cpu_seconds(action: Callable[[], object]) -> float:
    """CPU seconds of all threads of this process while `action` runs."""
    began = time.process_time()
    action()
    return time.process_time() - began


def calibrate(run: Run, seconds: float) -> int:
    """How many steps take about `seconds` of CPU; at least 1."""
    run(1)  # the first time may compile
    steps = 1
    while True:
        took = run(steps)
        wanted = max(1, math.ceil(seconds / max(took, 1e-9)))
        if wanted <= 2 * steps:
            return wanted
        steps = min(wanted, 16 * steps)


def settle() -> None:
    """Lets the last program's threads and garbage finish, so that they do not count as the next one's."""
    gc.collect()
    time.sleep(SETTLING)


def interleave(
    runs: Mapping[str, Run], repeats: int, seconds: float, tick: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """CPU seconds per step, measured in turn (A B C A B C ...) so that all see the same machine.

    Args:
        runs: what to measure.
        repeats: how often each is measured; only the first `ENOUGH` times where it takes long.
        seconds: the least CPU time of one measurement, about.
        tick: called after every round.

    Returns:
        The measurements of each; entry i of all were taken in the same round.
    """
    steps = {name: calibrate(run, seconds) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            spent = steps[name] * sum(samples[name])
            if len(samples[name]) < ENOUGH or spent < 2 * repeats * seconds:
                settle()
                samples[name].append(run(steps[name]))
        tick()
    return samples


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median over rounds of above / below, each of one round: what disturbs a round cancels."""
    return median(a / b for a, b in zip(above, below, strict=False))
