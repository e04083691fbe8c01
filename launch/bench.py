"""Measures what a training step costs, in CPU time on one core, beside the textbook implementation.

Every (architecture, R, e) is measured in a process of its own, pinned to one core; its variants, their
textbook implementations, the data and the core's matrix peak take turns, and medians are compared, so
that other users of the machine disturb all of them alike. Linux measures best: elsewhere nothing pins
the process, and CPU time is of all threads.

--device=gpu measures wall time on an accelerator instead, up to where the device says that it is done (CPU
time means nothing there): whole training programs of a table of its own, row by row into --json. What is in
that file is not measured again. --device=cpu runs the same programs on the CPU.

Columns: step ms: the compiled step alone, per member. /mono: over the monolithic variant. train ms:
with data and `fit`. textbook ms: all modules in memory, a Python generator, one step per call. of peak:
share of the fastest matrix product measured beside it. data: of the stream, over the step. fit: what
`fit` adds to the bare loop. MiB: arguments, results and temporaries of the compiled step. x alone: a
member of the population over one alone. gate units: of all modules, over monolithic (real work).

Examples:
    python launch/bench.py --arch=mlp --rules=2,32 --width=32
    python launch/bench.py --arch=mlp,mha,rnn --backend=jax
    python launch/bench.py --all --json=bench.json
    python launch/bench.py --arch=mlp --members=25 --nobaseline
    python launch/bench.py --arch=mlp,mha --evaluation
    python launch/bench.py --device=gpu --backend=jax --json=card.json
    python launch/bench.py --device=gpu --backend=jax --dry_run
"""

import json
import sys
from typing import Any

from absl import flags
from tqdm.auto import tqdm

from modtf.families import FAMILIES
from modtf.files import check_file_writable, write_text
from modtf.launch.benchmark.device.measure import measure_device
from modtf.launch.benchmark.device.requests import define_device_flags, needs_device
from modtf.launch.benchmark.requests import BACKENDS, measure, requests_of_flags
from modtf.launch.benchmark.table import COST, EVALUATION, cost_table, goal_lines, note_lines
from modtf.launch.cli import run_command
from modtf.launch.settings import define_settings
from modtf.models.routers import default_variants


def define_flags(values: flags.FlagValues) -> None:
    """Adds the flags of this command."""
    listed, boolean = flags.DEFINE_list, flags.DEFINE_boolean
    listed("arch", [next(iter(FAMILIES))], "Families of tasks, separated by commas.", flag_values=values)
    listed("rules", ["2", "32"], "Numbers of rules R.", flag_values=values)
    listed("width", ["32"], "Widths e.", flag_values=values)
    listed("variant", default_variants(), "Variants.", flag_values=values)
    boolean("all", False, "The whole table: all families, R 2, 8, 32, e 32, 128; some 25 minutes.",
            flag_values=values)  # fmt: skip
    listed("members", None, "Members of the population; above 1, one alone is measured too. "
           "Default 1, and 25 for --evaluation; with --device several.", flag_values=values)  # fmt: skip
    flags.DEFINE_integer("repeats", 7, "Measurements of each program, of which the median counts.",
                         flag_values=values)  # fmt: skip
    flags.DEFINE_float("seconds", 0.15, "CPU time of one measurement, at least.", flag_values=values)
    boolean("baseline", True, "Measure the textbook implementation too.", flag_values=values)
    boolean("evaluation", False, "Measure instead what evaluating costs beside training, paper sizes and "
            "steps divided by 10.", flag_values=values)  # fmt: skip
    flags.DEFINE_enum("backend", BACKENDS[0], BACKENDS, "Of Keras. jax: the compiled step and data "
                      "made by a program; nothing needs TensorFlow.", flag_values=values)  # fmt: skip
    flags.DEFINE_string("json", None, "File to write the rows to.", flag_values=values)
    define_device_flags(values)
    define_settings(values)


def main(given: flags.FlagValues) -> None:
    """Measures, prints the table and which goals it meets."""
    if given.json is not None:
        check_file_writable(given.json, "--json")
    if given.device is not None:
        measure_device(given)
        return
    needs_device(given)
    requests = requests_of_flags(given)
    rows: list[dict[str, Any]] = []
    rounds = 0 if given.evaluation else given.repeats
    total = sum(len(request["variants"]) + rounds for request in requests)
    try:
        with tqdm(total=total, desc="bench", unit="part") as bar:
            for request in requests:
                bar.set_postfix_str(f"{request['arch']} R={request['num_rules']} e={request['width']}")
                rows += measure(request, bar.update)
                if given.json is not None:  # after every group: a killed run leaves what it has
                    write_text(given.json, json.dumps(rows, indent=1))
    except KeyboardInterrupt:
        print("interrupted; this is what was measured:", file=sys.stderr)
        show(rows)
        sys.exit(130)
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the table and the goals."""
    if not rows:
        return
    print(cost_table(rows, EVALUATION if "evaluation_s" in rows[0] else COST))
    if "peak_gflops" in rows[0]:
        peaks = [row["peak_gflops"] for row in rows]
        print(f"\nMatrix peak of the core: {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s. CPU time, one core.")
    print("\n".join([*note_lines(rows), *goal_lines(rows)]))


def command() -> None:
    """The whole command."""
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
