"""Measure what a training step costs, in CPU time on one core, or in wall time on an accelerator.

In CPU time, the variants of an (architecture, R, e), the data and the core's matrix peak take turns in one
pinned process, and medians are compared: other users of the machine affect all alike. --device=gpu measures
whole training programs of a table of its own in wall time; rows in the file --json are not measured again.
docs/performance.md and docs/accelerator.md explain the columns.

Examples:
    python benchmarks/bench.py --arch=mlp --rules=2,32 --width=32
    python benchmarks/bench.py --arch=mlp --baseline=docs/performance/textbook_form.py:textbook
    python benchmarks/bench.py --device=gpu --backend=jax --json=card.json
"""

import contextlib
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import steps
from absl import flags
from etils import epy
from steps import BATCH_SIZE, MEMORY, Clock, Run, paired_ratio, run_of

from modtf.base.files import check_file_writable, check_writable, scratch_folder, write_text
from modtf.base.plugins import load_plugin
from modtf.launch.cli import Definer, run_command
from modtf.launch.set_options import define_settings, settings_given
from modtf.models.architectures.sizes import check_size
from modtf.models.routers import default_variants
from modtf.pages.text import text_table
from modtf.studies.grid import cell_of, check_cell
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, with_free_rules
from modtf.tasks.memory import check_members
from modtf.tasks.population import Population
from modtf.tasks.protocol import KERNELS, PLACES, PRECISIONS
from modtf.training import machine

with epy.lazy_imports():  # a process needs one backend, the parent none
    import jax
    import keras
    import tensorflow as tf

    from modtf.models import build
    from modtf.models.kernels import by_device
    from modtf.training import arithmetic

Row = dict[str, Any]

PEAK_SIZE = {"gpu": 8192, "cpu": 1024}  # of the square matrices whose product gives the peak
FIT_BELOW = 5e-3  # seconds of a step above which what fit adds (some 0.2 ms) is lost in it
TASKS, PROFILED = 5, 2  # of a population; programs in a trace
GUESS, NO_END = 30.0, 1e6  # seconds of a cell until some were measured; of a command without a limit
NAMED = {"precision": PRECISIONS, "data": PLACES[1:], "kernels": KERNELS}
SHAPE = ("arch", "num_rules", "width", "variant")
KEY = (*SHAPE, "members", *NAMED, "backend", "options", "xla_flags")
OWN, OTHER = "own", "other"  # kernels, before a device is known
PLAIN: Row = {"num_rules": [8], "width": [32, 128], "members": [25], "precision": ["float32"],
              "data": ["device"], "kernels": [OWN], "variants": [["modular"]]}  # fmt: skip
#: a device's table: all combinations of each part; the most valuable parts come first
DEVICE_TABLE: Sequence[Row] = (
    {"precision": PRECISIONS},
    {"members": [1, 5, 100]},
    {"width": [512], "precision": PRECISIONS},
    {"kernels": [OTHER]},
    {"members": [1, 25], "data": ["host"]},
    {"num_rules": [32], "width": [32], "members": [1, 25, 100]},
    {"members": [100], "precision": PRECISIONS[1:]},
)
CELL = {"arch": "{arch}", "R": "{num_rules}", "e": "{width}", "variant": "{variant}"}
CORE_COLUMNS = CELL | {
    "step ms": "{step_ms:.2f}", "/mono": "{to_monolithic:.2f}", "train ms": "{train_ms:.2f}",
    "baseline ms": "{baseline_ms:.1f}", "baseline/ours": "{to_baseline:.1f}x",
    "of peak": "{peak_fraction:.0%}", "data": "{data_share:.1%}", "fit": "{fit_overhead:+.0%}",
    "compile s": "{compile_s:.1f}", "MiB": "{mib:.1f}", "x alone": "{to_alone:.2f}",
    "gate units": "{gate_units:.2f}x",
}  # fmt: skip
DEVICE_COLUMNS = CELL | {
    "P": "{members}", "precision": "{precision}", "data": "{data}", "kernels": "{kernels}",
    "step ms": "{step_ms:.3g}", "members x steps/s": "{member_steps_per_s:,.0f}",
    "models/h": "{models_per_hour:,.4g}", "of peak": "{peak_fraction:.1%}", "MiB": "{mib:,.0f}",
    "compile s": "{compile_s:.1f}", "released models/h": "{released:,.3g}",
    "x released": "{to_released:,.0f}x", "options": "{options}",
}  # fmt: skip


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this script."""
    define = Definer(values)
    define.list("arch", [next(iter(FAMILIES))], "Families of tasks, separated by commas.")
    define.list("rules", ["2", "32"], "Numbers of rules R.")
    define.list("width", ["32"], "Widths e.")
    define.list("members", ["1"], "The number of members; --device takes several.")
    define.list("variant", default_variants(), "Variants.")
    define.integer("repeats", 7, "Measurements of each program. The table has the median.", lower_bound=1)
    define.float("seconds", 0.15, "The least seconds of one measurement.", lower_bound=1e-6)
    words = "FILE:NAME of a function that returns a Keras model and its data for one of ours, or None. "
    define.string("baseline", None, f"{words}Its `fit` is measured, too.")
    define.enum("backend", "tensorflow", ("tensorflow", "jax"), "The backend of Keras. jax needs --device.")
    define.string("json", None, "File to write the rows to.")
    words = "Measure wall time on this device. Lists of values replace those of the device's table."
    define.enum("device", None, tuple(PEAK_SIZE), words)
    words = "With --device: the time limit in minutes. No measurement begins that would exceed it."
    define.float("minutes", 7.5, words, lower_bound=1e-6, upper_bound=NO_END / 60)
    for name, known in NAMED.items():
        define.list(name, None, f"With --device: a list of {', '.join(known)}.")
    define.string("profile", None, "With --device: a folder for the profiler's traces; measures all cells.")
    define.string("released", None, "With --device: the rows of docs/accelerator/released_speed.py.")
    define_settings(values)


def main(values: flags.FlagValues) -> None:
    """Measure the requested programs that are not measured yet, and print the table."""
    wrong = ["baseline"] if values.device else [*NAMED, "minutes", "profile", "released"]
    if misplaced := [name for name in wrong if values[name].present]:
        raise ValueError(f"--{misplaced[0]} works only {'without' if values.device else 'with'} --device.")
    if values.backend == "jax" and not values.device:
        raise ValueError("--backend=jax: CPU time is measured with TensorFlow. Give --device=cpu or gpu.")
    path = None if values.json is None else check_file_writable(values.json, "--json")
    common: Row = {
        name: getattr(values, name) for name in ("backend", "repeats", "seconds", "baseline", "device")
    }
    common["plugins"] = [load_plugin(location) for location in values.plugin]  # as any process finds them
    profile = None if values.profile is None else check_writable(values.profile, "--profile").absolute()
    released = [] if values.released is None else read_rows(Path(values.released))
    requests = requests_of(values)
    # CPU times are comparable only within a run.
    kept = read_rows(path) if values.device and path is not None and path.exists() else []
    rows = {key_of(row): row for row in kept}
    done = {key for key, row in rows.items() if "failed" not in row and profile is None}
    left = [one for one in requests if not {key_of(row) for row in rows_of(one)} <= done]
    print(f"{len(requests)} requests, {len(requests) - len(left)} of them measured before.", flush=True)
    prepare_environment(values)
    try:
        seconds = 60 * values.minutes if values.device else NO_END
        measure_requests(left, rows, {**common, "profile": profile}, seconds, path)
    finally:
        print_table(list(rows.values()), released)


def requests_of(values: flags.FlagValues) -> list[Row]:
    """Return what the flags ask for: one cell each on a device, else the variants of an (arch, R, e)."""
    given: Row = {}
    for flag in ("arch", "rules", "width", "members", *NAMED, "variant"):
        texts = values[flag].value
        if texts is None or (values.device and not values[flag].present):
            continue
        known = NAMED.get(flag, texts)
        if not texts or not set(texts) <= set(known):
            raise ValueError(
                f"--{flag}={','.join(texts)}: expected some of {', '.join(known) or 'its values'}."
            )
        given[flag] = texts
        if flag in ("rules", "width", "members"):
            if not all(text.isdecimal() and int(text) for text in texts):
                raise ValueError(
                    f"--{flag}={','.join(texts)}: expected positive integers with commas between."
                )
            given[flag] = [int(text) for text in texts]
    if "rules" in given:
        given["num_rules"] = given.pop("rules")
    if variants := given.pop("variant", None):
        given["variants"] = [[name] for name in variants] if values.device else [variants]
    if not values.device and len(given["members"]) > 1:
        raise ValueError("--members has several numbers. Give --device to measure several.")
    own, other = KERNELS[::-1] if values.device == "gpu" else KERNELS
    requests: dict[str, Row] = {}
    for part in DEVICE_TABLE if values.device else ({**given, "data": [MEMORY]},):
        axes = {**part, **PLAIN, **part, "arch": list(with_free_rules()), **given}
        for point in product(*axes.values()):
            cell: Row = dict(zip(axes, point, strict=True))
            cell["kernels"] = {OWN: own, OTHER: other}.get(cell["kernels"], cell["kernels"])
            requests.setdefault(json.dumps(cell, sort_keys=True), request_of(cell, values))
    return list(requests.values())


def request_of(cell: Row, values: flags.FlagValues) -> Row:
    """Return a cell with all that its process must know; raise `ValueError` if it cannot be built or fit."""
    check_members(cell["members"], f"--members={cell['members']}")
    options: Row = {}
    for space, some in settings_given(values).items():
        if some and space not in ("task", "router", "model"):
            raise ValueError(f"--set {space}.{next(iter(some))}: a benchmark uses the published protocol.")
        options |= {name if space == "task" else f"{space}.{name}": value for name, (value,) in some.items()}
    shared = {"backend": values.backend, "options": options, "xla_flags": os.environ.get("XLA_FLAGS", "")}
    for row in rows_of(request := {**cell, **shared}):
        check_cell(built := cell_of_row(row))
        check_size(built)
    return request


def rows_of(request: Row) -> list[Row]:
    """Return the description of each variant's measurement."""
    shared = {name: value for name, value in request.items() if name != "variants"}
    return [{**shared, "variant": variant} for variant in request["variants"]]


def cell_of_row(row: Row) -> Cell:
    """Return the cell of a row: data seeds vary faster than seeds."""
    members = tuple((i % TASKS, i // TASKS) for i in range(row["members"]))
    point = {**{name: row[name] for name in SHAPE}, **row["options"]}
    return cell_of({**point, "members": members, "training.precision": row["precision"]})


def population_of(cell: Cell) -> Population:
    """Return the population of a cell; a single member has no members axis."""
    return cell.population if len(cell.members) > 1 else cell.population.single_member(0)


def key_of(row: Row) -> str:
    """Return what tells one measurement from another."""
    return json.dumps([row.get(name) for name in KEY], sort_keys=True)


def label_of(row: Row) -> str:
    """Return the label of a row: "mlp_r8_e32_modular_p25_tf32_device_accelerator_jax"."""
    form = "{arch}_r{num_rules}_e{width}_{variant}_p{members}_{precision}_{data}_{kernels}_{backend}"
    return form.format_map(row)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file; raise `ValueError` if it holds anything else."""
    with contextlib.suppress(ValueError):
        rows = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(rows, list) and all(isinstance(row, dict) and "arch" in row for row in rows):
            return rows
    raise ValueError(f"{path} is not a file of benchmark rows, a JSON list of objects with the key 'arch'.")


def prepare_environment(values: flags.FlagValues) -> None:
    """Set what processes inherit: the backend, the device; for CPU time one core and one thread."""
    os.environ |= {"KERAS_BACKEND": values.backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if values.device != "gpu":
        os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    elif (platforms := os.environ.get("JAX_PLATFORMS")) and "cpu" not in platforms.split(","):
        os.environ["JAX_PLATFORMS"] = f"{platforms},cpu"  # JAX keeps its CPU beside a GPU
    if not values.device:
        os.environ |= machine.thread_variables(1)
        if hasattr(os, "sched_setaffinity"):  # Linux; elsewhere CPU time covers all threads
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measure_requests(
    left: list[Row], rows: dict[str, Row], common: Row, seconds: float, path: Path | None
) -> None:
    """Measure requests and write all rows after each, so that a kill loses nothing.

    A request that is expected to exceed the time limit is not started; one that exceeds it is stopped.
    """
    end = time.monotonic() + seconds
    for number, request in enumerate(left):
        alike = [row["wall_s"] for row in rows.values() if row["arch"] == request["arch"] and "wall_s" in row]
        began, expected = time.monotonic(), sum(alike) / len(alike) if alike else GUESS
        measured = ask(request, common, end - began) if expected <= end - began else []
        if not measured:
            print(f"The time is up: {len(left) - number} requests left. Rerun the command to measure them.")
            return
        name, failed = label_of(measured[0]), measured[0].get("failed")
        if failed and not common["device"]:
            raise OSError(f"measuring {name} failed: {failed}")
        devices = {row["device"] for row in (*rows.values(), *measured) if "device" in row}
        if len(devices) > 1:
            raise ValueError(f"--json={path} has rows of another device: {', '.join(devices)}.")
        took = {} if failed else {"wall_s": time.monotonic() - began}
        rows |= {key_of(row): {**row, **took} for row in measured}
        if path is not None:
            write_text(path, json.dumps(list(rows.values()), indent=1))
        print(f"{name}: {failed or 'measured'}", file=sys.stderr, flush=True)


def ask(request: Row, common: Row, seconds: float) -> list[Row]:
    """Return the rows that a process measures, none after `seconds`; `OSError` if it cannot begin."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=answer, args=(theirs, request, common), daemon=True)
    process.start()
    theirs.close()
    try:
        made = ours.recv() if ours.poll(min(seconds, NO_END)) else []
    except EOFError:
        made = [{"failed": "the process died, mostly for lack of memory"}] * len(request["variants"])
    finally:
        process.kill()
        process.join()
    if isinstance(made, str):
        raise OSError(made)
    return [{**row, **costs} for row, costs in zip(rows_of(request), made, strict=False)]


def answer(connection: Any, request: Row, common: Row) -> None:
    """Measure a request in this process, and send the costs of its variants, or why it cannot begin."""
    for location in common["plugins"]:
        load_plugin(location)
    library, kind = jax if common["backend"] == "jax" else tf, common["device"] or "cpu"
    with scratch_folder() as folder:
        if library is tf:  # XLA reports the memory of programs there
            os.environ["XLA_FLAGS"] = f"{request['xla_flags']} --xla_dump_to={folder}".strip()
        try:
            name = machine.processor_name() if kind == "cpu" else graphics_card(library)
        except (RuntimeError, IndexError):
            connection.send(
                f"--device={kind}: {common['backend']} {library.__version__} finds no such device. Install "
                "it with CUDA and check that nvidia-smi lists it. --device=cpu runs the same programs."
            )
            return
        version = f"{common['backend']} {library.__version__}, keras {keras.__version__}"
        try:
            made = measure(request, common, Path(folder), kind)
        except Exception as error:  # out of memory, mostly
            made = [{"failed": f"{type(error).__name__}: {error}"[:300]}] * len(request["variants"])
    connection.send([{"device": name, "software": version, **costs} for costs in made])


def graphics_card(library: Any) -> str:
    """Return the name of the first GPU; `RuntimeError` or `IndexError` if there is none."""
    if library is jax:
        return jax.devices("gpu")[0].device_kind
    tf.config.list_physical_devices("GPU")[0]
    return machine.accelerators()[0]


def measure(request: Row, common: Row, folder: Path, kind: str) -> list[Row]:
    """Return the costs of each variant of a request."""
    clock: Clock = time.perf_counter if common["device"] else time.process_time
    cells, data, runs, every = [cell_of_row(row) for row in rows_of(request)], request["data"], {}, []
    others: dict[str, Run] = {}  # measured last: a dataset's threads may outlive its `fit`
    population, training = population_of(cells[0]), cells[0].protocol.training
    with by_device.use_kernels(request["kernels"]), contextlib.ExitStack() as opened:
        form = steps.jax_step if common["backend"] == "jax" else partial(steps.tensorflow_step, folder=folder)
        step = partial(form, training=training, data=data, clock=clock, opened=opened)
        for cell in cells:
            name, model = cell.variant, build.build_cell(cell, population)
            call, count, compile_s, size = step(model)
            runs[f"{name} step"] = run_of(clock, call, count)
            flops = arithmetic.BACKWARD * BATCH_SIZE * model.forward_flops()
            every.append({"num_parameters": model.num_parameters, "flops": flops, "compile_s": compile_s,
                          "published_steps": training.steps, "steps_per_program": count,
                          "program_bytes": size, "mib": size and size / 2**20})  # fmt: skip
            if hasattr(model, "state_width"):  # a recurrence
                every[-1]["gate_units"] = model.num_modules * model.state_width / (4 * model.width)
            if data == MEMORY and len(population) > 1:
                alone, count, *_ = step(build.build_cell(cell, population.single_member(0)))
                runs[f"{name} alone"] = run_of(clock, alone, count)
            if data == MEMORY and runs[f"{name} step"](2) < FIT_BELOW:
                others[f"{name} fit"] = steps.own_fit_run(model, clock, cached=False)
                runs[f"{name} cached fit"] = steps.own_fit_run(model, clock, cached=True)
            is_plain = not (cell.router or cell.model)  # a baseline knows no options
            if common["baseline"] and is_plain and (made := steps.baseline_of(model, common["baseline"])):
                others[f"{name} baseline"] = steps.fit_run(*made, clock)
        for name, multiply in steps.peaks(common["backend"], request["precision"], PEAK_SIZE[kind]).items():
            runs[name] = run_of(clock, multiply)
        if data == MEMORY:
            runs["data"] = steps.data_run(population, clock)
        samples = steps.interleave({**runs, **others}, common["repeats"], common["seconds"])
        if common["profile"]:
            trace = jax.profiler.trace if common["backend"] == "jax" else tf.profiler.experimental.Profile
            with trace(str(common["profile"] / label_of(rows_of(request)[0]))):
                call(PROFILED)
    rows, product_flops = rows_of(request), 2 * PEAK_SIZE[kind] ** 3
    return [
        costs | costs_of(row | costs, samples, product_flops) for row, costs in zip(rows, every, strict=True)
    ]


def costs_of(row: Row, samples: Mapping[str, list[float]], product_flops: int) -> Row:
    """Return the costs of a row from seconds per step by item; ratios are taken within a round."""
    variant, members = row["variant"], row["members"]
    fastest = min((samples[name] for name in samples if name.endswith("peak")), key=median)
    step, times = samples[f"{variant} step"], {name: 1e3 * median(some) for name, some in samples.items()}
    each, divided = times[f"{variant} step"], members if row["data"] == MEMORY else 1  # CPU time: per member
    costs = {
        "step_ms": each / divided, "step_ms_range": [1e3 * one / divided for one in (min(step), max(step))],
        "member_steps_per_s": 1e3 * members / each,
        "models_per_hour": 3.6e6 * members / (row["published_steps"] * each),
        "peak_tflops": 1e-12 * product_flops / median(fastest),
        "peak_fraction": members * row["flops"] / product_flops * paired_ratio(fastest, step),
    }  # fmt: skip
    if "data" in times:
        costs |= {"data_ms": times["data"] / members, "data_share": times["data"] / each}
        costs["train_ms"] = costs["step_ms"] + costs["data_ms"]
    if "monolithic step" in times:
        costs["to_monolithic"] = paired_ratio(step, samples["monolithic step"])
    if f"{variant} fit" in times:
        costs["train_ms"] = times[f"{variant} fit"] / members
        costs["fit_overhead"] = paired_ratio(samples[f"{variant} cached fit"], step) - 1
    if f"{variant} baseline" in times:
        costs["baseline_ms"] = times[f"{variant} baseline"]
        costs["to_baseline"] = costs["baseline_ms"] / costs["train_ms"]
    if f"{variant} alone" in times:
        costs["to_alone"] = paired_ratio(step, samples[f"{variant} alone"]) / members
    return costs


def print_table(rows: Sequence[Row], released: Sequence[Row]) -> None:
    """Print the rows with the columns that they fill, and the peaks."""
    if not (measured := [row for row in rows if "failed" not in row]):
        return
    for row in measured:  # compared with the best number of processes
        speeds = [one["models_per_hour"] for one in released if all(one[n] == row[n] for n in SHAPE)]
        if speeds and not row.get("options"):  # rows of older files have none
            row |= {"released": max(speeds), "to_released": row["models_per_hour"] / max(speeds)}
    columns = CORE_COLUMNS if any(row["data"] == MEMORY for row in measured) else DEVICE_COLUMNS
    texts = {heading: [filled(form, row) for row in measured] for heading, form in columns.items()}
    used = {heading: column for heading, column in texts.items() if any(column)}
    print(text_table(list(used), list(zip(*used.values(), strict=True))))
    for precision in dict.fromkeys(row["precision"] for row in measured):
        peak = [row["peak_tflops"] for row in measured if row["precision"] == precision]
        print(f"Matrix peak, {precision}: between {min(peak):.3g} and {max(peak):.3g} TFLOP/s.")


def filled(form: str, row: Row) -> str:
    """Return an entry of the table, empty if the row lacks its value."""
    value = row.get(re.findall(r"{(\w+)", form)[0])
    return form.format_map(row) if value not in (None, {}) else ""


if __name__ == "__main__":
    run_command(main, define_flags)
