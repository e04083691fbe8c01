"""Measures cells on a device, one after the other, in a process of its own.

Reads JSON from standard input, a line with what is common and then a line per cell; writes one JSON object
per line: `{"device": ...}` or `{"error": ...}`, then `{"row": ...}` per cell. `launch/bench.py --device`
runs it.
"""

import gc
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from modtf.launch.benchmark.device.grid import label_of
from modtf.launch.benchmark.device.program import StepProgram, wall_seconds
from modtf.launch.benchmark.device.trace import newest_trace, operations
from modtf.launch.benchmark.measure import BATCH_SIZE, interleave, paired_ratio
from modtf.plugins import load_plugin
from modtf.protocol import Protocol

#: backend of Keras -> what is timed with it
PROGRAMS = {
    "tensorflow": "modtf.launch.benchmark.device.tf_steps",
    "jax": "modtf.launch.benchmark.device.jax_steps",
}
PEAK_SIZE = {"gpu": 8192, "cpu": 512}  # rows and columns of the matrices whose product is the device's peak
PROFILED = 2  # programs in a trace
LONGEST = 300  # characters of why a cell failed


def main() -> None:
    """Answers until there are no more cells."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever libraries print must not mix with the answers

    def answer(**what: Any) -> None:
        print(json.dumps(what), file=answers, flush=True)

    common = json.loads(sys.stdin.readline())
    for location in common["plugins"]:
        load_plugin(location)
    with tempfile.TemporaryDirectory() as folder:
        programs = import_module(PROGRAMS[common["backend"]])
        programs.prepare_process(folder)
        try:
            device = programs.find_device(common["device"])
        except ValueError as error:
            answer(error=str(error))
            return
        answer(device=device)
        for line in sys.stdin:
            cell = json.loads(line)
            made_on = {"device": device, "software": programs.software()}
            try:
                found = measure_cell(programs, cell, common)
            except Exception as error:  # out of memory, mostly: the next cell may fit
                found = {"failed": f"{type(error).__name__}: {error}"[:LONGEST]}
            answer(row={**cell, **made_on, **found})
            gc.collect()


def measure_cell(programs: Any, cell: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """What one cell costs.

    Args:
        programs: `jax_steps` or `tf_steps`.
        cell: of `grid.table`, with its options.
        common: `device`, `repeats`, `seconds` of one measurement, `profile`: a folder or None.
    """
    from modtf.launch.benchmark.cells import model_of, population_of
    from modtf.launch.benchmark.flops import step_flops
    from modtf.models.kernels.by_device import use_kernels

    began = time.perf_counter()
    population, size = population_of(cell), PEAK_SIZE[common["device"]]
    published = Protocol.published(population.task).training
    training = replace(published, precision=cell["precision"])
    model = model_of(cell, cell["variant"], population, training.dtype)
    with use_kernels(cell["kernels"]), programs.step_program(model, training, cell["data"]) as program:
        peak = programs.peak_run(cell["precision"], size)
        runs = {
            "program": lambda times: wall_seconds(partial(program.run, times)) / times,
            "product": lambda times: wall_seconds(partial(peak, times)) / times,
        }
        samples = interleave(runs, common["repeats"], common["seconds"])
        traced = profile(programs, program, cell, common["profile"])
    members, product_flops = len(population), 2 * size**3
    flops = step_flops(model, BATCH_SIZE)
    steps_s = [taken / program.steps for taken in samples["program"]]
    step_s = median(steps_s)
    return {
        "step_ms": 1e3 * step_s,
        "step_ms_range": [1e3 * min(steps_s), 1e3 * max(steps_s)],
        "member_steps_per_s": members / step_s,
        "published_steps": published.steps,
        "models_per_hour": 3600 * members / (published.steps * step_s),
        "flops": flops,
        "num_parameters": model.num_parameters,
        "peak_tflops": 1e-12 * product_flops / median(samples["product"]),
        "peak_fraction": members * program.steps * flops / product_flops
        * paired_ratio(samples["product"], samples["program"]),
        "program_bytes": program.program_bytes,
        "compile_s": program.compile_s,
        "steps_per_program": program.steps,
        **traced,
        "wall_s": time.perf_counter() - began,
    }  # fmt: skip


def profile(
    programs: Any, program: StepProgram, cell: Mapping[str, Any], folder: str | None
) -> dict[str, Any]:
    """What a trace of some programs says took the time; nothing without a folder for traces."""
    if folder is None:
        return {}
    place = Path(folder, label_of(cell))
    try:
        with programs.trace(str(place)):
            program.run(PROFILED)
        path = newest_trace(place)
        return {} if path is None else operations(path, PROFILED * program.steps)
    except Exception as error:  # a profiler that is not allowed to look: what was measured stands
        return {"trace_failed": f"{type(error).__name__}: {error}"[:LONGEST]}


if __name__ == "__main__":
    main()
