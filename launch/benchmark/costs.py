"""Measures what a request costs, in a process of its own; `dispatch` runs it.

Reads JSON from standard input, what is common and the request, and writes its rows.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from modtf.files import scratch_folder
from modtf.launch.benchmark.requests import MEMORY, PROFILED, Request, cells_of, label_of
from modtf.launch.benchmark.timing import (
    BATCH_SIZE,
    CLOCKS,
    Clock,
    Run,
    interleave,
    paired_ratio,
    run_of,
    timed,
)
from modtf.models.base import ModularModel
from modtf.models.build import build
from modtf.models.kernels.by_device import use_kernels
from modtf.plugins import load_plugin
from modtf.population import Population
from modtf.protocol import Protocol
from modtf.task import Task
from modtf.training.arithmetic import BACKWARD

PEAK_SIZE = {"gpu": 8192, "cpu": 1024}  # rows and columns of the matrices whose product is the device's peak
FIT_BELOW = 5e-3  # seconds of a step above which what fit adds (some 0.2 ms) is lost in it
TASKS = 5  # of a published cell; each with as many seeds
LONGEST = 300  # characters of why a request failed

Costs = dict[str, Any]
Runs = dict[str, Run]


def main() -> None:
    """Answers one request; a process that cannot begin ends with status 1, its last line says why."""
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
            found = measure(programs, request, common)
        except Exception as error:  # out of memory, mostly
            failed = {"failed": f"{type(error).__name__}: {error}"[:LONGEST]}
            found = [failed] * len(request["variants"])
        made = {"device": device, "software": programs.SOFTWARE}
        cells = zip(cells_of(request), found, strict=True)
        json.dump([{**cell, **made, **costs} for cell, costs in cells], answers)


def population_of(request: Request, members: int) -> Population:
    """Several members have an axis, one alone has none."""
    task = Task(request["arch"], num_rules=request["num_rules"], **request["task"])
    if members == 1:
        return Population.of(task)
    tasks = [task.replace(data_seed=i % TASKS) for i in range(members)]
    return Population.of(tasks, [i // TASKS for i in range(members)])


def measure(programs: Any, request: Request, common: Mapping[str, Any]) -> list[Costs]:
    """What each variant of a request costs, by a backend's programs; `common`: `requests.how_measured`."""
    clock, data = CLOCKS[common["clock"]], request["data"]
    population, size = population_of(request, request["members"]), PEAK_SIZE[common["device"]]
    training = replace(Protocol.published(population.task).training, precision=request["precision"])
    runs: Runs = {}
    others: Runs = {}  # measured after what is compared: a dataset's threads may outlive its `fit`
    found: list[Costs] = []

    def model_of(variant: str, members: Population) -> ModularModel:
        options = {"router": request["router"][variant], "dtype": training.dtype, **request["model"]}
        return build(members, variant, request["width"], **options)

    with use_kernels(request["kernels"]), contextlib.ExitStack() as opened:
        if common["evaluation"]:
            models = (model_of(variant, population) for variant in request["variants"])
            return [programs.evaluation_costs(model, training, clock) for model in models]

        def opened_step(model: ModularModel) -> tuple[Any, Run]:
            program = opened.enter_context(programs.step_program(model, training, data, clock))
            return program, run_of(clock, program.call, program.steps)

        for variant in request["variants"]:
            model = model_of(variant, population)
            program, runs[f"{variant} step"] = opened_step(model)
            costs = {
                "num_parameters": model.num_parameters,
                "flops": BACKWARD * BATCH_SIZE * model.forward_flops(),
                "published_steps": training.steps,
                "steps_per_program": program.steps,
                "compile_s": program.compile_s,
                "program_bytes": program.program_bytes,
            }
            if hasattr(model, "state_width"):  # a recurrence
                costs["gate_units"] = model.num_modules * model.state_width / (4 * model.width)
            if data == MEMORY and len(population) > 1:
                _, runs[f"{variant} alone"] = opened_step(model_of(variant, population_of(request, 1)))
            if data == MEMORY and common["backend"] == "tensorflow":
                has_options = bool(request["task"] or request["router"][variant] or request["model"])
                costs |= _add_training(model, clock, common["baseline"], has_options, runs, others)
            found.append(costs)
        if data == MEMORY and common["backend"] == "tensorflow" and common["baseline"]:
            runs |= programs.plain_run(model, clock)
        for name, call in programs.peak_calls(request["precision"], size).items():
            runs[name] = run_of(clock, call)
        if data == MEMORY:
            runs["data"] = programs.data_run(population, clock)
        samples = interleave({**runs, **others}, common["repeats"], common["seconds"])
        for cell, costs in zip(cells_of(request), found, strict=True):
            costs |= costs_of(cell, costs, samples, 2 * size**3)
            if common["profile"]:
                with programs.trace(str(Path(common["profile"], label_of(cell)))):
                    program.call(PROFILED)
    return found


def _add_training(
    model: ModularModel, clock: Clock, baseline: bool, has_options: bool, runs: Runs, others: Runs
) -> Costs:
    """Adds what is measured beside a step: `fit` where it shows; apart, on the stream and the textbook's.

    Returns what compiling the textbook takes, or that there is none.
    """
    from modtf.launch.benchmark import tensorflow_programs
    from modtf.launch.benchmark.textbook import has_textbook, textbook_run

    variant, task = model.variant, model.population.task
    if runs[f"{variant} step"](2) < FIT_BELOW:
        others[f"{variant} fit"] = tensorflow_programs.own_fit_run(model, clock, cached=False)
        runs[f"{variant} cached fit"] = tensorflow_programs.own_fit_run(model, clock, cached=True)
    if not baseline:
        return {}
    if has_options or not has_textbook(task, variant):
        return {"has_textbook": False}
    textbook = textbook_run(task, variant, model.width, clock)
    others[f"{variant} textbook"] = textbook
    return {"has_textbook": True, "textbook_compile_s": timed(clock, partial(textbook, 1))}


def costs_of(cell: Request, known: Costs, samples: Mapping[str, list[float]], product_flops: int) -> Costs:
    """What the measurements say about one cell; ratios are of the same round.

    `known` has its "flops" and "published_steps", `samples` seconds by what was timed; `product_flops` are
    the operations of the product whose speed is the peak.
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
    if "plain step" in samples:
        costs["to_plain"] = paired_ratio(step, samples["plain step"])
    if f"{variant} fit" in samples:
        costs["train_ms"] = 1e3 * median(samples[f"{variant} fit"]) / members
        costs["fit_overhead"] = paired_ratio(samples[f"{variant} cached fit"], step) - 1
    if f"{variant} textbook" in samples:
        costs["textbook_ms"] = 1e3 * median(samples[f"{variant} textbook"])
    if f"{variant} alone" in samples:
        costs["alone_ms"] = 1e3 * median(samples[f"{variant} alone"])
        costs["to_alone"] = paired_ratio(step, samples[f"{variant} alone"]) / members
    return costs


if __name__ == "__main__":
    main()
