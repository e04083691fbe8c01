"""Measures what a training step costs, in CPU time on one core.

Every (architecture, R, e) is measured in a separate process, pinned to one core. Its variants, the data and
the core's matrix peak are measured in turns, and medians are compared, so that other users of the machine
affect all of them alike. Linux measures best: elsewhere the process is not pinned, and CPU time covers all
threads. Baselines that plug-ins register (docs/performance) are measured, too.

--device=gpu measures wall time on an accelerator instead, until the device reports that it is done (CPU time
means nothing there). It measures whole training programs of a table of its own and writes them row by row to
--json. Rows in that file are not measured again. --device=cpu runs the same programs on the CPU.

Columns: step ms: the compiled step alone, per member. /mono: relative to the monolithic variant. train ms:
with data and `fit`. of peak: share of the fastest matrix product measured alongside. data: time of the
stream, relative to the step. fit: what `fit` adds to the bare loop. MiB: arguments, results and temporaries
of the compiled step. x alone: time of a member in the population, relative to one alone. gate units: work of
all modules, relative to monolithic.

Examples:
    python launch/bench.py --arch=mlp --rules=2,32 --width=32
    python launch/bench.py --arch=mlp,mha,rnn --backend=jax
    python launch/bench.py --all --json=bench.json
    python launch/bench.py --arch=mlp --members=25
    python launch/bench.py --arch=mlp --plugin=docs/performance/textbook_form.py
    python launch/bench.py --arch=mlp,mha --evaluation
    python launch/bench.py --device=gpu --backend=jax --json=card.json
    python launch/bench.py --device=gpu --backend=jax --dry_run
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

from functools import partial

from absl import flags

from modtf.base.files import check_file_writable, check_writable
from modtf.base.words import plural
from modtf.launch.benchmark.dispatch import NO_END, Rows, measure_requests, read_rows
from modtf.launch.benchmark.requests import (
    BACKENDS,
    DEVICES,
    NAMED,
    cells_of,
    expected_seconds,
    how_measured,
    label_of,
    requests_of_flags,
)
from modtf.launch.benchmark.table import print_table
from modtf.launch.cli import Definer, run_command
from modtf.launch.set_options import define_settings
from modtf.models.routers import default_variants
from modtf.tasks.families import FAMILIES


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    define.list("arch", [next(iter(FAMILIES))], "Families of tasks, separated by commas.")
    define.list("rules", ["2", "32"], "Numbers of rules R.")
    define.list("width", ["32"], "Widths e.")
    define.list("variant", default_variants(), "Variants.")
    define.bool(
        "all",
        False,
        "Measure the whole table: all families, 2, 8 and 32 rules, widths 32 and 128. It takes about 25 "
        "minutes.",
    )
    words = (
        "The number of members of the population; above 1, a single model is measured, too. The default is "
        "1, and 25 with --evaluation. "
    )
    define.list("members", None, f"{words}--device accepts several numbers.")
    words = "The number of measurements of each program. The table shows the median."
    define.integer("repeats", 7, words, lower_bound=1)
    define.float("seconds", 0.15, "The least CPU time of one measurement, in seconds.", lower_bound=1e-6)
    define.bool("baseline", True, "Measure the baselines of plug-ins, too.")
    words = (
        "Measure the cost of evaluation against that of training, with a tenth of the paper's sizes and "
        "steps."
    )
    define.bool("evaluation", False, words)
    words = (
        "The backend of Keras. jax measures the compiled step, with data made by a program, and needs no "
        "TensorFlow."
    )
    define.enum("backend", BACKENDS[0], BACKENDS, words)
    define.string("json", None, "File to write the rows to.")
    words = (
        "Measure wall time on this device instead of CPU time. Lists of values replace those of the "
        "device's table."
    )
    define.enum("device", None, DEVICES, words)
    words = "With --device: the time limit in minutes. No measurement begins that would exceed it."
    define.float("minutes", 7.5, words, lower_bound=1e-6, upper_bound=NO_END / 60)
    define.bool("dry_run", False, "With --device: list the measurements without running them.")
    for axis, names in NAMED.items():
        define.list(axis, None, f"With --device: a list of {', '.join(names)}.")
    words = (
        "With --device: a folder for the profiler's traces. Cells that were measured before are measured "
        "again."
    )
    define.string("profile", None, words)
    words = "With --device: the file of docs/accelerator/released_speed.py to compare with."
    define.string("released", None, words)
    define_settings(values)


def main(values: flags.FlagValues) -> None:
    """Measure the requested programs that are not measured yet, or list them, and print the table."""
    if values.json is not None:
        check_file_writable(values.json, "--json")
    requests, common, on_device = requests_of_flags(values), how_measured(values), values.device is not None
    if values.profile is not None:
        common["profile"] = str(check_writable(values.profile, "--profile").absolute())
    rows = Rows(values.json, anew=not on_device)  # CPU times are comparable only within a run
    released = [] if values.released is None else read_rows(values.released)
    left = [request for request in requests if values.profile is not None or not rows.has(request)]
    if on_device:
        seconds = sum(expected_seconds(request, rows) for request in left)
        print(f"{plural(len(requests), 'cell')}, {len(requests) - len(left)} of them measured before; the "
              f"rest may take some {seconds / 60:.1f} minutes.", flush=True)  # fmt: skip
    if values.dry_run:
        for request in left:
            print(f"{expected_seconds(request, rows):5.0f} s  {label_of(*cells_of(request))}")
        return
    try:
        measure_requests(left, rows, common, 60 * values.minutes if on_device else NO_END)
    finally:
        print_table(list(rows), released)


#: the whole command
command = partial(run_command, main, define_flags)
