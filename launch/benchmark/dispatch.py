"""Each request is measured in a separate process. The rows that it returns are kept in a file."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modtf.base.files import read_text, write_text
from modtf.base.words import plural
from modtf.launch.benchmark.requests import Request, Row, cells_of, expected_seconds, key_of, label_of
from modtf.training.machine import thread_variables

COMMAND = (sys.executable, "-m", "modtf.launch.benchmark.costs")
NO_END = 1e6  # seconds


def answer(request: Request, common: Mapping[str, Any], seconds: float) -> list[Row]:
    """Return the rows that a process measures, stopped after `seconds`; rows of a broken measurement say so
    ("failed"). Raise `OSError` if it cannot begin, `subprocess.TimeoutExpired` if it was stopped."""
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(COMMAND, text=True, env=environment(common), **streams) as process:
        try:
            if common["clock"] == "cpu" and hasattr(os, "sched_setaffinity"):  # Linux
                with contextlib.suppress(OSError):  # at once, so that every pool of threads has one
                    os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
            output, noise = process.communicate(json.dumps({"common": common, "request": request}), seconds)
        finally:
            process.kill()
    why = (noise.strip().splitlines() or ["nothing was printed"])[-1]
    if process.returncode > 0:  # what breaks later is a signal's, or in the rows
        raise OSError(f"the measuring process could not start: {why}")
    return (
        [{**cell, "failed": why} for cell in cells_of(request)] if process.returncode else json.loads(output)
    )


def environment(common: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a process on the device; it has one thread if CPU time is measured."""
    chosen = {**os.environ, "KERAS_BACKEND": common["backend"], "TF_CPP_MIN_LOG_LEVEL": "3"}
    if common["clock"] == "cpu":
        chosen |= thread_variables(1)
    if common["device"] == "cpu":
        return {**chosen, "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and "cpu" not in platforms.split(","):  # JAX keeps its CPU beside a GPU
        chosen["JAX_PLATFORMS"] = f"{platforms},cpu"
    return chosen


class Rows:
    """The rows of a JSON file, which is written after each request, so that a kill loses nothing.

    Without a path, rows are kept in memory only. `anew` drops the rows of the file.
    """

    def __init__(self, path: str | Path | None, anew: bool = False):
        self.path = None if path is None else Path(path)
        kept = read_rows(self.path) if self.path is not None and self.path.exists() and not anew else []
        self._rows: dict[str, Row] = {key_of(row): row for row in kept}

    def __iter__(self):
        return iter(self._rows.values())

    def has(self, request: Request) -> bool:
        """Return whether a request is measured; a failed one is not."""
        return all("failed" not in self._rows.get(key_of(cell), {"failed": ""}) for cell in cells_of(request))

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows, or replace those of the same cells; raise `ValueError` on rows of another device."""
        devices = {row["device"] for row in rows if "device" in row}
        others = {row["device"] for row in self if devices and row.get("device") not in (*devices, None)}
        if others:
            raise ValueError(
                f"--json={self.path} holds rows of {', '.join(sorted(others))}, but this is "
                f"{', '.join(devices)}. Choose another file."
            )
        self._rows |= {key_of(row): row for row in rows}
        if self.path is not None:
            write_text(self.path, json.dumps(list(self._rows.values()), indent=1))


def read_rows(path: str | Path) -> list[Row]:
    """Return the rows of a file; raise `ValueError` if it holds anything else."""
    try:
        rows = json.loads(read_text(path))
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "arch" in row for row in rows):
        raise ValueError(
            f"{path} is not a file of benchmark rows; expected a JSON list of objects with the key 'arch'."
        )
    return rows


def measure_requests(
    requests: Sequence[Request], rows: Rows, common: Mapping[str, Any], seconds: float, ask: Any = answer
) -> None:
    """Measure requests in order and add their rows; a request that breaks its process is recorded as
    failed.

    A request that is expected to exceed the time limit is not started, and a request that exceeds it is
    stopped. Raise `ValueError` if `rows` are of another device, `OSError` if CPU time cannot be measured.
    """
    end, left = time.monotonic() + seconds, list(requests)
    while left and expected_seconds(left[0], rows) <= (seconds_left := end - (began := time.monotonic())):
        try:
            answered = ask(left[0], common, seconds_left)
        except subprocess.TimeoutExpired:
            break
        name = label_of({**left[0], "variant": "+".join(left[0]["variants"])})
        failed = answered[0].get("failed")
        if failed and common["clock"] == "cpu":
            raise OSError(f"measuring {name} failed: {failed}")
        took = {} if failed else {"wall_s": time.monotonic() - began}
        rows.add([{**row, **took} for row in answered])
        left.pop(0)
        print(f"{name}: {failed or 'measured'}", file=sys.stderr, flush=True)
    if left:
        print(f"The time is up: {plural(len(left), 'cell')} left. Rerun the command to measure the rest.")
