"""Measures the variants of one (architecture, R, e) in a process of its own.

Reads a request as JSON from standard input; writes one JSON object per line: `{"tick": 1}` as work is
done, `{"rows": [...]}` at the end. Run by `launch/bench.py`.
"""

import json
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from modtf.launch.benchmark.measure import (
    BATCH_SIZE,
    PEAK_FLOPS,
    Run,
    cpu_seconds,
    interleave,
    paired_ratio,
    pin_to_one_core,
)
from modtf.plugins import load_plugin

# Backend of Keras -> what is timed with it
PROGRAMS = {
    "tensorflow": "modtf.launch.benchmark.programs",
    "jax": "modtf.launch.benchmark.jax_programs",
}

FIT_BELOW = 5e-3  # seconds of a step above which what fit adds (some 0.2 ms) is lost in it


def main() -> None:
    """Answers the request."""
    request = json.loads(sys.stdin.read())
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever libraries print must not mix with the answers

    def answer(**what: Any) -> None:
        print(json.dumps(what), file=answers, flush=True)

    pin_to_one_core()
    with tempfile.TemporaryDirectory() as dump:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={dump}"
        for location in request["plugins"]:
            load_plugin(location)

        def tick() -> None:
            answer(tick=1)

        if request["evaluation"]:
            from modtf.launch.benchmark.evaluation_cost import measure_evaluation

            answer(rows=measure_evaluation(request, tick))
        else:
            answer(rows=measure_group(request, Path(dump), tick))


def measure_group(request: dict[str, Any], dump: Path, tick: Callable[[], None]) -> list[dict[str, Any]]:
    """One row per variant."""
    from modtf.launch.benchmark.cells import cell_columns, model_of, population_of
    from modtf.launch.benchmark.flops import step_flops
    from modtf.launch.benchmark.hlo import largest_program, largest_tensor, program_bytes

    programs = import_module(PROGRAMS[request["backend"]])
    population, members = population_of(request), request["members"]
    rows: list[dict[str, Any]] = []
    runs: dict[str, Run] = programs.peak_runs()
    if data := programs.data_run(population):
        runs["data"] = data
    others: dict[str, Run] = {}  # measured after what is compared: a dataset's threads may outlive its `fit`
    for variant in request["variants"]:
        empty(dump)
        model = model_of(request, variant, population)
        step = runs[f"{variant} step"] = programs.step_run(model)
        first, again = (cpu_seconds(partial(step, 1)) for _ in range(2))
        row = {
            **cell_columns(request, variant),
            "num_parameters": model.num_parameters,
            "flops": step_flops(model, BATCH_SIZE),
            "compile_s": first - again,
            "program_bytes": program_bytes(dump),
            "largest_tensor": largest_tensor(largest_program(dump)),
        }
        if hasattr(model, "state_width"):  # a recurrence
            row["gate_units"] = model.num_modules * model.state_width / (4 * model.width)
        if members > 1:
            one = model_of(request, variant, population_of(request, members=1))
            alone = runs[f"{variant} alone"] = programs.step_run(one)
            alone(1)
        if request["backend"] == "tensorflow":
            around, apart = runs_around(request, model, step, row)
            runs, others = runs | around, others | apart
        rows.append(row)
        tick()
    samples = interleave({**runs, **others}, request["repeats"], request["seconds"], tick)
    return [{**row, **costs(row, samples)} for row in rows]


def runs_around(
    request: dict[str, Any], model: Any, step: Run, row: dict[str, Any]
) -> tuple[dict[str, Run], dict[str, Run]]:
    """What is measured beside a step: `fit` where it shows; apart, `fit` on the stream and the textbook's.

    Adds to the row what compiling the textbook costs, or that there is none.
    """
    from modtf.launch.benchmark import programs
    from modtf.launch.benchmark.cells import has_options

    around, apart, variant, task = {}, {}, model.variant, model.population.task
    if step(2) < FIT_BELOW:
        apart[f"{variant} fit"] = programs.own_fit_run(model, cached=False)
        around[f"{variant} cached fit"] = programs.own_fit_run(model, cached=True)
    if request["baseline"]:
        row["has_textbook"] = not has_options(request, variant) and programs.has_textbook(task, variant)
        if row["has_textbook"]:
            baseline = programs.textbook_model(task, variant, model.width)
            textbook = apart[f"{variant} textbook"] = programs.textbook_run(baseline, task)
            row["textbook_compile_s"] = cpu_seconds(partial(textbook, 1))
    return around, apart


def costs(row: dict[str, Any], samples: dict[str, list[float]]) -> dict[str, Any]:
    """What the measurements say about one row; ratios are of the same round."""
    variant, members = row["variant"], row["members"]
    fastest = min((samples[name] for name in samples if name.endswith("peak")), key=median)
    step = samples[f"{variant} step"]
    step_ms = 1e3 * median(step) / members
    found = {
        "step_ms": step_ms,
        "peak_gflops": 1e-9 * PEAK_FLOPS / median(fastest),
        "peak_fraction": members * row["flops"] / PEAK_FLOPS * paired_ratio(fastest, step),
        "group_peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    if "data" in samples:
        found["data_ms"] = 1e3 * median(samples["data"]) / members
        found["train_ms"] = step_ms + found["data_ms"]
    if "monolithic step" in samples:
        found["to_monolithic"] = paired_ratio(step, samples["monolithic step"])
    if f"{variant} fit" in samples:
        found["train_ms"] = 1e3 * median(samples[f"{variant} fit"]) / members
        found["fit_overhead"] = paired_ratio(samples[f"{variant} cached fit"], step) - 1
    if f"{variant} textbook" in samples:
        found["textbook_ms"] = 1e3 * median(samples[f"{variant} textbook"])
    if f"{variant} alone" in samples:
        found["alone_ms"] = 1e3 * median(samples[f"{variant} alone"])
        found["to_alone"] = paired_ratio(step, samples[f"{variant} alone"]) / members
    return found


def empty(folder: Path) -> None:
    """Removes everything in `folder`."""
    shutil.rmtree(folder)
    folder.mkdir()


if __name__ == "__main__":
    main()
