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
from typing import Any

from modtf.launch.benchmark.measure import cpu_seconds, interleave, pin_to_one_core

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
    runs = {"data": programs.data_run(tasks, seeds), **programs.peak_runs()}
    for variant in request["variants"]:
        empty(dump)
        model = build(tasks, variant, width, seeds)
        step = runs[f"{variant} step"] = programs.step_run(model)
        compile_seconds = cpu_seconds(partial(step, 1))
        row = {
            **{key: request[key] for key in ("arch", "num_rules", "width", "members")},
            "variant": variant,
            "num_parameters": model.num_parameters,
            "flops": step_flops(model, programs.BATCH_SIZE),
            "compile_s": compile_seconds,
            "program_bytes": program_bytes(dump),
            "largest_tensor": largest_tensor(largest_program(dump)),
        }
        if arch == "rnn":
            row["gate_units"] = model.num_modules * model.state_width / (4 * width)
        if members > 1:
            alone = runs[f"{variant} alone"] = programs.step_run(build(task, variant, width, 0))
            alone(1)
        if step(2) < FIT_BELOW * members:
            runs[f"{variant} fit"] = programs.own_fit_run(model, cached=False)
            runs[f"{variant} cached fit"] = programs.own_fit_run(model, cached=True)
        if request["baseline"]:
            empty(dump)
            baseline = programs.textbook_model(task, variant, width)
            textbook = runs[f"{variant} textbook"] = programs.textbook_run(baseline, task)
            row["textbook_compile_s"] = cpu_seconds(partial(textbook, 1))
        rows.append(row)
        tick()
    seconds = interleave(runs, request["repeats"], request["seconds"], tick)
    peak = programs.PEAK_FLOPS / min(seconds["peak"], seconds["compiled peak"])
    for row in rows:
        variant = row["variant"]
        found = {
            key.removeprefix(f"{variant} "): s for key, s in seconds.items() if key.startswith(f"{variant} ")
        }
        step, data = found["step"] / members, seconds["data"] / members
        row |= {
            "step_ms": 1e3 * step,
            "data_ms": 1e3 * data,
            "train_ms": 1e3 * found.get("fit", members * (step + data)) / members,
            "peak_gflops": 1e-9 * peak,
            "peak_fraction": row["flops"] / step / peak,
            "group_peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        if "cached fit" in found:
            row["fit_overhead"] = found["cached fit"] / found["step"] - 1
        if "textbook" in found:
            row["textbook_ms"] = 1e3 * found["textbook"]
        if "alone" in found:
            row["alone_ms"] = 1e3 * found["alone"]
    return rows


def empty(folder: Path) -> None:
    """Removes everything in `folder`."""
    shutil.rmtree(folder)
    folder.mkdir()


if __name__ == "__main__":
    main()
