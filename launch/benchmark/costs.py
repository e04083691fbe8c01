"""Measurement of a request's cost in a separate process, which `dispatch` starts.

It reads JSON from standard input, the common settings and the request, and writes rows.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from modtf.base.files import scratch_folder
from modtf.base.plugins import load_plugin
from modtf.launch.benchmark.requests import MEMORY, PROFILED, Request, cell_of_row, cells_of, label_of
from modtf.launch.benchmark.timing import (
    BASELINES,
    BATCH_SIZE,
    CLOCKS,
    Clock,
    Run,
    interleave,
    paired_ratio,
    run_of,
)
from modtf.models.base import ModularModel
from modtf.models.build import build_cell
from modtf.models.kernels.by_device import use_kernels
from modtf.tasks.cell import Cell
from modtf.tasks.population import Population
from modtf.training.arithmetic import BACKWARD

PEAK_SIZE = {"gpu": 8192, "cpu": 1024}  # size of the square matrices whose product gives the peak
FIT_BELOW = 5e-3  # seconds of a step above which what fit adds (some 0.2 ms) is lost in it
LONGEST = 300  # characters of why a request failed

Costs = dict[str, Any]
Runs = dict[str, Run]


def main() -> None:
    """Answer one request. A process that cannot begin ends with status 1 and the reason in its last line."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever libraries print must not mix with the answer
    asked = json.load(sys.stdin)
    request, common = asked["request"], asked["common"]
    for location in common["plugins"]:
        load_plugin(location)
    with scratch_folder() as folder:
        programs = import_module(f"modtf.launch.benchmark.{common['backend']}_programs")
        if common["backend"] == "tensorflow":
            programs.report_memory(folder)
        try:
            device = programs.find_device(common["device"])
        except ValueError as error:
            sys.exit(str(error))
        try:
            measured = measure(programs, request, common)
        except Exception as error:  # out of memory, mostly
            failed = {"failed": f"{type(error).__name__}: {error}"[:LONGEST]}
            measured = [failed] * len(request["variants"])
        made = {"device": device, "software": programs.SOFTWARE}
        cells = zip(cells_of(request), measured, strict=True)
        json.dump([{**cell, **made, **costs} for cell, costs in cells], answers)


def population_of(cell: Cell) -> Population:
    """Return the population of a cell; a single member has no members axis."""
    return cell.population if len(cell.members) > 1 else cell.population.alone(0)


def measure(programs: Any, request: Request, common: Mapping[str, Any]) -> list[Costs]:
    """Measure the cost of each variant of a request with a backend's programs.

    `common` is the result of `requests.how_measured`.
    """
    clock, data = CLOCKS[common["clock"]], request["data"]
    cells = [cell_of_row(row) for row in cells_of(request)]
    population, training = population_of(cells[0]), cells[0].protocol.training
    size = PEAK_SIZE[common["device"]]
    runs: Runs = {}
    others: Runs = {}  # measured after what is compared: a dataset's threads may outlive its `fit`
    all_costs: list[Costs] = []

    with use_kernels(request["kernels"]), contextlib.ExitStack() as opened:
        if common["evaluation"]:
            models = (build_cell(cell, population) for cell in cells)
            return [programs.evaluation_costs(model, training, clock) for model in models]
        for cell in cells:
            variant, model = cell.variant, build_cell(cell, population)
            program = opened.enter_context(programs.step_program(model, training, data, clock))
            runs[f"{variant} step"] = run_of(clock, program.call, program.steps)
            costs = _fixed_costs(model, program, training.steps)
            if data == MEMORY:
                if len(population) > 1:
                    alone = build_cell(cell, population.alone(0))
                    one = opened.enter_context(programs.step_program(alone, training, data, clock))
                    runs[f"{variant} alone"] = run_of(clock, one.call, one.steps)
                if common["backend"] == "tensorflow":
                    is_plain = not (cell.router or cell.model)
                    costs |= _add_training(model, clock, common["baseline"], is_plain, runs, others)
            all_costs.append(costs)
        for name, call in programs.peak_calls(request["precision"], size).items():
            runs[name] = run_of(clock, call)
        if data == MEMORY:
            runs["data"] = programs.data_run(population, clock)
        samples = interleave({**runs, **others}, common["repeats"], common["seconds"])
        for row, costs in zip(cells_of(request), all_costs, strict=True):
            costs |= costs_of(row, costs, samples, 2 * size**3)
        if common["profile"]:
            _write_traces(programs, program, request, common["profile"])
    return all_costs


def _write_traces(programs: Any, program: Any, request: Request, folder: str) -> None:
    """Write a trace of the last program, for every row of a request."""
    for row in cells_of(request):
        with programs.trace(str(Path(folder, label_of(row)))):
            program.call(PROFILED)


def _fixed_costs(model: ModularModel, program: Any, published_steps: int) -> Costs:
    """Return the costs that need no timing."""
    costs = {
        "num_parameters": model.num_parameters,
        "flops": BACKWARD * BATCH_SIZE * model.forward_flops(),
        "published_steps": published_steps,
        "steps_per_program": program.steps,
        "compile_s": program.compile_s,
        "program_bytes": program.program_bytes,
    }
    if hasattr(model, "state_width"):  # a recurrence
        costs["gate_units"] = model.num_modules * model.state_width / (4 * model.width)
    return costs


def _add_training(
    model: ModularModel, clock: Clock, baseline: bool, is_plain: bool, runs: Runs, others: Runs
) -> Costs:
    """Add the measurements of `fit` (for short steps), the stream, and the training of baselines.

    Baselines have no options of models. Return the baselines that exist.
    """
    from modtf.launch.benchmark import tensorflow_programs

    variant, costs = model.variant, Costs()
    if runs[f"{variant} step"](2) < FIT_BELOW:
        others[f"{variant} fit"] = tensorflow_programs.own_fit_run(model, clock, cached=False)
        runs[f"{variant} cached fit"] = tensorflow_programs.own_fit_run(model, clock, cached=True)
    for name in BASELINES if baseline else ():
        form = BASELINES[name](model) if is_plain else None
        costs[f"has_{name}"] = form is not None
        if form is not None:
            others[f"{variant} {name}"] = tensorflow_programs.fit_run(*form, clock)
    return costs


def costs_of(cell: Request, known: Costs, samples: Mapping[str, list[float]], product_flops: int) -> Costs:
    """Return the costs of one cell from its measurements, in seconds by item; ratios are taken within a
    round.

    `product_flops` counts the operations of the matrix product that gives the peak.
    """
    variant, members = cell["variant"], cell["members"]
    fastest = min((samples[name] for name in samples if name.endswith("peak")), key=median)
    step, each = samples[f"{variant} step"], 1e3 * median(samples[f"{variant} step"])
    in_turn = members if cell["data"] == MEMORY else 1  # the table of CPU time is per member
    costs = {
        "step_ms": each / in_turn,
        "step_ms_range": [1e3 * taken / in_turn for taken in (min(step), max(step))],
        "member_steps_per_s": 1e3 * members / each,
        "models_per_hour": 3.6e6 * members / (known["published_steps"] * each),
        "peak_tflops": 1e-12 * product_flops / median(fastest),
        "peak_gflops": 1e-9 * product_flops / median(fastest),
        "peak_fraction": members * known["flops"] / product_flops * paired_ratio(fastest, step),
    }
    if "data" in samples:
        costs["data_ms"] = 1e3 * median(samples["data"]) / members
        costs["train_ms"] = costs["step_ms"] + costs["data_ms"]
    if "monolithic step" in samples:
        costs["to_monolithic"] = paired_ratio(step, samples["monolithic step"])
    if f"{variant} fit" in samples:
        costs["train_ms"] = 1e3 * median(samples[f"{variant} fit"]) / members
        costs["fit_overhead"] = paired_ratio(samples[f"{variant} cached fit"], step) - 1
    for name in BASELINES:
        if f"{variant} {name}" in samples:
            costs[f"{name}_ms"] = 1e3 * median(samples[f"{variant} {name}"])
    if f"{variant} alone" in samples:
        costs["alone_ms"] = 1e3 * median(samples[f"{variant} alone"])
        costs["to_alone"] = paired_ratio(step, samples[f"{variant} alone"]) / members
    return costs


if __name__ == "__main__":
    main()
