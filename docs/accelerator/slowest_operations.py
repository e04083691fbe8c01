"""Sum up the device's time in traces of `benchmarks/bench.py --profile`, by name of operation.

python docs/accelerator/slowest_operations.py --profile=traces --json=card.json
"""

import argparse
import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from bench import PROFILED, label_of

LISTED = 12  # operations
OUTER = ("ThunkExecutor", "while", "call", "conditional")  # which hold others


def device_threads(events: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Return the threads of an accelerator's streams in a trace, or else those of XLA on a CPU."""
    named = [event for event in events if event.get("ph") == "M"]
    processes = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in named if e["name"] == "thread_name"}
    of_devices = {place for place in threads if "/device:" in processes.get(place[0], "")}
    streams = {place for place in of_devices if threads[place].startswith("Stream")}
    return streams or of_devices or {p for p, name in threads.items() if name.startswith("tf_XLA")}


def operations(events: list[dict[str, Any]], steps: int) -> tuple[float, dict[str, float]]:
    """Return the operations per step, and name -> milliseconds of a step, the slowest first."""
    places, times, count = device_threads(events), defaultdict[str, float](float), 0
    for event in events:
        is_here = event.get("ph") == "X" and (event["pid"], event.get("tid")) in places
        if is_here and not event["name"].startswith(OUTER):
            times[event["name"]] += 1e-3 * event["dur"] / steps  # of microseconds
            count += 1
    return count / steps, dict(sorted(times.items(), key=lambda found: -found[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--profile", type=Path, required=True, help="folder of traces, written with JAX")
    parser.add_argument("--json", type=Path, required=True, help="rows of the same cells")
    given = parser.parse_args()
    for row in json.loads(given.json.read_text(encoding="utf-8")):
        traces = given.profile.glob(f"{label_of(row)}/plugins/profile/*/*.trace.json.gz")
        if path := max(traces, key=lambda path: path.stat().st_mtime, default=None):
            events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
            count, times = operations(events, PROFILED * row["steps_per_program"])
            print(f"{label_of(row)}: {row['step_ms']:.3g} ms a step; in its trace {count:.0f} operations, "
                  f"together {sum(times.values()):.3g} ms")  # fmt: skip
            for name in list(times)[:LISTED]:
                print(f"  {times[name]:9.4f} ms  {name}")


if __name__ == "__main__":
    main()
