"""What a profiler's trace says took the time: the operations of the device, summed up by name."""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

LISTED = 12  # operations
OUTER = ("ThunkExecutor", "while", "call", "conditional")  # which hold others


def newest_trace(folder: str | Path) -> Path | None:
    """The newest trace below a folder that can be read without TensorBoard; TensorFlow writes none."""
    found = Path(folder).glob("plugins/profile/*/*.trace.json.gz")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def operations(path: str | Path, steps: int) -> dict[str, Any]:
    """What the device did in a trace.

    Args:
        path: of a `*.trace.json.gz`.
        steps: training steps in it.

    Returns:
        `operations_per_step`; `busy_ms`, of a step, all operations together; and `slowest`, a list of [name,
        ms of a step], the operations of one name together.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    places = _device_threads(events)
    times: dict[str, float] = defaultdict(float)
    count = 0
    for event in events:
        is_here = event.get("ph") == "X" and (event["pid"], event.get("tid")) in places
        if is_here and not event["name"].startswith(OUTER):
            times[event["name"]] += event["dur"]  # microseconds
            count += 1
    slowest = sorted(times.items(), key=lambda found: -found[1])[:LISTED]
    return {
        "operations_per_step": count / steps,
        "busy_ms": 1e-3 * sum(times.values()) / steps,
        "slowest": [[name, 1e-3 * taken / steps] for name, taken in slowest],
    }


def _device_threads(events: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Where an accelerator's streams stand in a trace, or else the threads of XLA on a CPU."""
    processes, threads = {}, {}
    for event in events:
        if event.get("ph") == "M" and event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        if event.get("ph") == "M" and event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] = event["args"]["name"]
    of_devices = {place: name for place, name in threads.items() if "/device:" in processes.get(place[0], "")}
    streams = {place for place, name in of_devices.items() if name.startswith("Stream")}
    on_cpu = {place for place, name in threads.items() if name.startswith("tf_XLA")}
    return streams or set(of_devices) or on_cpu
