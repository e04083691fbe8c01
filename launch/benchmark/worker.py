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
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from modtf.launch.benchmark.measure import cpu_seconds, interleave, paired_ratio, pin_to_one_core

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
        if request["evaluation"]:
            from modtf.launch.benchmark.evaluation_cost import measure_evaluation as measure
        else:
            measure = measure_group
        answer(rows=measure(request, Path(dump), lambda: answer(tick=1)))


def measure_group(request: dict[str, Any], dump: Path, tick: Any) -> list[dict[str, Any]]:
    """One row per variant."""
    from modtf.launch.benchmark import programs
    from modtf.launch.benchmark.flops import step_flops
    from modtf.launch.benchmark.hlo import largest_program, largest_tensor, program_bytes
    from modtf.models.build import build
    from modtf.task import Task

    arch, num_rules, width, members = (request[key] for key in ("arch", "num_rules", "width", "members"))
    task = Task(arch, num_rules=num_rules)
    tasks: Any = [Task(arch, num_rules=num_rules, data_seed=i % 5) for i in range(members)]
    seeds: Any = [i // 5 for i in range(members)]
    if members == 1:
        tasks, seeds = tasks[0], seeds[0]
    rows: list[dict[str, Any]] = []
    runs = {**programs.peak_runs(), "data": programs.data_run(tasks, seeds)}
    others = {}  # measured after what is compared: threads of a dataset may outlive its `fit`
    for variant in request["variants"]:
        empty(dump)
        model = build(tasks, variant, width, seeds)
        step = runs[f"{variant} step"] = programs.step_run(model)
        first, again = (cpu_seconds(partial(step, 1)) for _ in range(2))
        row = {
            **{key: request[key] for key in ("arch", "num_rules", "width", "members")},
            "variant": variant,
            "num_parameters": model.num_parameters,
            "flops": step_flops(model, programs.BATCH_SIZE),
            "compile_s": first - again,
            "program_bytes": program_bytes(dump),
            "largest_tensor": largest_tensor(largest_program(dump)),
        }
        if arch == "rnn":
            row["gate_units"] = model.num_modules * model.state_width / (4 * width)
        if members > 1:
            alone = runs[f"{variant} alone"] = programs.step_run(build(task, variant, width, 0))
            alone(1)
        if step(2) < FIT_BELOW:
            others[f"{variant} fit"] = programs.own_fit_run(model, cached=False)
            runs[f"{variant} cached fit"] = programs.own_fit_run(model, cached=True)
        if request["baseline"]:
            empty(dump)
            baseline = programs.textbook_model(task, variant, width)
            textbook = others[f"{variant} textbook"] = programs.textbook_run(baseline, task)
            row["textbook_compile_s"] = cpu_seconds(partial(textbook, 1))
        rows.append(row)
        tick()
    samples = interleave({**runs, **others}, request["repeats"], request["seconds"], tick)
    return [{**row, **costs(row, samples, programs.PEAK_FLOPS)} for row in rows]


def costs(row: dict[str, Any], samples: dict[str, list[float]], peak_flops: float) -> dict[str, Any]:
    """What the measurements say about one row; ratios are of the same round."""
    variant, members = row["variant"], row["members"]
    peak = {name: samples[name] for name in ("peak", "compiled peak")}
    fastest = min(peak.values(), key=median)
    step = samples[f"{variant} step"]
    step_ms, data_ms = (1e3 * median(values) / members for values in (step, samples["data"]))
    found = {
        "step_ms": step_ms,
        "data_ms": data_ms,
        "train_ms": step_ms + data_ms,
        "peak_gflops": 1e-9 * peak_flops / median(fastest),
        "peak_fraction": members * row["flops"] / peak_flops * paired_ratio(fastest, step),
        "group_peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
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
