"""Measures what a training step costs, in CPU time on one core, beside the textbook implementation.

Every (architecture, R, e) is measured in a process of its own, pinned to one core; its variants, their
textbook implementations, the data and the core's matrix peak take turns, and medians are compared, so
that other users of the machine disturb all of them alike. Linux measures best: elsewhere nothing pins
the process, and CPU time is of all threads.

Columns: step ms: the compiled step alone, per member. /mono: over the monolithic variant. train ms:
with data and `fit`. textbook ms: all modules in memory, a Python generator, one step per call. of peak:
share of the fastest matrix product measured beside it. data: of the stream, over the step. fit: what
`fit` adds to the bare loop. MiB: arguments, results and temporaries of the compiled step. x alone: a
member of the population over one alone. gate units: of all modules, over monolithic (real work).

Examples:
    python launch/bench.py --arch=mlp --rules=2,32 --width=32
    python launch/bench.py --all --json=bench.json
    python launch/bench.py --arch=mlp --members=25 --nobaseline
    python launch/bench.py --arch=mlp,mha --evaluation
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from absl import flags
from tqdm.auto import tqdm

from modtf.files import write_text
from modtf.launch.benchmark.measure import one_core_environment
from modtf.launch.benchmark.table import COST, EVALUATION, aligned, goal_lines
from modtf.launch.cli import check_writable, run_command
from modtf.models.routers import ROUTERS
from modtf.models.sizes import check_width
from modtf.task import ARCHITECTURES, check_choice, check_integer

FLAGS = flags.FLAGS
PUBLISHED_MEMBERS = 25  # of a cell: 5 tasks x 5 seeds
ALL = {
    "arch": list(ARCHITECTURES),
    "rules": ["2", "8", "32"],
    "width": ["32", "128"],
    "variant": list(ROUTERS),
}


def define_flags(values: flags.FlagValues = FLAGS) -> None:
    """Adds the flags of this command."""
    listed, boolean = flags.DEFINE_list, flags.DEFINE_boolean
    listed("arch", ["mlp"], "Architectures, separated by commas.", flag_values=values)
    listed("rules", ["2", "32"], "Numbers of rules R.", flag_values=values)
    listed("width", ["32"], "Widths e.", flag_values=values)
    listed("variant", list(ROUTERS), "Variants.", flag_values=values)
    boolean("all", False, "The whole table: 3 architectures, R 2, 8, 32, e 32, 128; some 25 minutes.",
            flag_values=values)  # fmt: skip
    flags.DEFINE_integer("members", None, "Members of the population; above 1, one alone is measured too. "
                         "Default 1, and 25 for --evaluation.", flag_values=values)  # fmt: skip
    flags.DEFINE_integer("repeats", 7, "Measurements of each program, of which the median counts.",
                         flag_values=values)  # fmt: skip
    flags.DEFINE_float("seconds", 0.15, "CPU time of one measurement, at least.", flag_values=values)
    boolean("baseline", True, "Measure the textbook implementation too.", flag_values=values)
    boolean("evaluation", False, "Measure instead what evaluating costs beside training, paper sizes and "
            "steps divided by 10.", flag_values=values)  # fmt: skip
    flags.DEFINE_string("json", None, "File to write the rows to.", flag_values=values)


def requests_of_flags(given: flags.FlagValues) -> list[dict[str, Any]]:
    """One request per (architecture, R, e).

    Raises:
        ValueError: on values that have no meaning, before anything runs.
    """
    chosen: dict[str, list[str]] = ALL if given.all else {name: getattr(given, name) for name in ALL}
    for name, values in chosen.items():
        if not values:
            raise ValueError(f"--{name} is empty; expected values separated by commas.")
    for arch in chosen["arch"]:
        check_choice("--arch", arch, ARCHITECTURES)
    for variant in chosen["variant"]:
        check_choice("--variant", variant, tuple(ROUTERS))
    rules = [_integer("--rules", text, 2) for text in chosen["rules"]]
    widths = [_integer("--width", text, 1) for text in chosen["width"]]
    members = given.members
    if members is None:
        members = PUBLISHED_MEMBERS if given.evaluation else 1
    shared = {
        "variants": [variant for variant in ROUTERS if variant in chosen["variant"]],
        "members": check_integer("--members", members, 1),
        "repeats": check_integer("--repeats", given.repeats, 1),
        "seconds": given.seconds,
        "baseline": given.baseline,
        "evaluation": given.evaluation,
    }
    if not given.seconds > 0:
        raise ValueError(f"--seconds={given.seconds} must be above 0.")
    requests = []
    for arch, num_rules, width in dict.fromkeys(product(chosen["arch"], rules, widths)):
        check_width(arch, width, num_rules)
        requests.append({"arch": arch, "num_rules": num_rules, "width": width, **shared})
    return requests


def _integer(name: str, text: str, low: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not valid; expected integers separated by commas.") from None
    return check_integer(name, value, low)


def measure(request: dict[str, Any], tick: Callable[[], object]) -> list[dict[str, Any]]:
    """Rows of one request, from a process of its own.

    Raises:
        OSError: where that process fails; the message is its last line.
    """
    command = [sys.executable, "-m", "modtf.launch.benchmark.worker"]
    environment = {**os.environ, **one_core_environment()}
    with tempfile.TemporaryFile("w+") as noise:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=noise, text=True, env=environment
        ) as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            try:
                worker.stdin.write(json.dumps(request))
                worker.stdin.close()
                for line in worker.stdout:
                    answer = json.loads(line)
                    if "rows" in answer:
                        return answer["rows"]
                    tick()
            except BaseException:
                worker.kill()
                raise
        noise.seek(0)
        last = (noise.read().strip().splitlines() or ["nothing was printed"])[-1]
        raise OSError(
            f"measuring {request['arch']} R={request['num_rules']} e={request['width']} failed: {last}"
        )


def main() -> None:
    """Measures, prints the table and which goals it meets."""
    requests = requests_of_flags(FLAGS)
    if FLAGS.json is not None:
        check_writable(Path(FLAGS.json).parent)
        if Path(FLAGS.json).is_dir():
            raise ValueError(f"--json={FLAGS.json} is a folder; give the name of a file.")
    rows: list[dict[str, Any]] = []
    rounds = 0 if FLAGS.evaluation else FLAGS.repeats
    total = sum(len(request["variants"]) + rounds for request in requests)
    try:
        with tqdm(total=total, desc="bench", unit="part") as bar:
            for request in requests:
                bar.set_postfix_str(f"{request['arch']} R={request['num_rules']} e={request['width']}")
                rows += measure(request, bar.update)
                if FLAGS.json is not None:  # after every group: a killed run leaves what it has
                    write_text(FLAGS.json, json.dumps(rows, indent=1))
    except KeyboardInterrupt:
        print("interrupted; this is what was measured:", file=sys.stderr)
        show(rows)
        sys.exit(130)
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the table and the goals."""
    if not rows:
        return
    print(aligned(rows, EVALUATION if "evaluation_s" in rows[0] else COST))
    if "peak_gflops" in rows[0]:
        peaks = [row["peak_gflops"] for row in rows]
        print(f"\nMatrix peak of the core: {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s. CPU time, one core.")
    print("\n".join(goal_lines(rows)))


if __name__ == "__main__":
    define_flags()
    run_command(main)
