"""Hands requests to a process that measures, and keeps the rows that it answers with."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from modtf.files import write_text
from modtf.launch.benchmark.requests import Request, Row, cells_of, expected_seconds, key_of, label_of

ONE_THREAD = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
NO_END = threading.TIMEOUT_MAX  # seconds


def answers(
    requests: Sequence[Request], common: Mapping[str, Any], seconds: float
) -> Iterator[dict[str, Any]]:
    """What a process of its own says of requests: {"device": its name} or {"error": why not}, {"rows": [...]}
    for each and, where it ends before it should, {"died": the last line that it printed}.

    Args:
        common: `requests.how_measured`.
        seconds: after which it is stopped.
    """
    command, unanswered = [sys.executable, "-m", "modtf.launch.benchmark.costs"], len(requests)
    with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+") as noise:
        json.dump({"common": common, "requests": requests}, asked)
        asked.seek(0)
        process = subprocess.Popen(
            command, stdin=asked, stdout=subprocess.PIPE, stderr=noise, text=True, env=environment(common)
        )
        stop = threading.Timer(max(0.0, min(seconds, NO_END)), process.kill)
        stop.start()
        try:
            if common["clock"] == "cpu" and hasattr(os, "sched_setaffinity"):  # Linux
                with contextlib.suppress(OSError):  # at once, so that every pool of threads has one
                    os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
            assert process.stdout is not None
            for answer in map(json.loads, process.stdout):
                unanswered -= "rows" in answer
                yield answer
            if unanswered:
                noise.seek(0)
                yield {"died": (noise.read().strip().splitlines() or ["nothing was printed"])[-1]}
        finally:
            stop.cancel()
            process.kill()
            process.communicate()


def environment(common: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables for a process on the device, of one thread where CPU time is measured."""
    chosen = {**os.environ, "KERAS_BACKEND": common["backend"], "TF_CPP_MIN_LOG_LEVEL": "3"}
    if common["clock"] == "cpu":
        chosen |= dict.fromkeys(ONE_THREAD, "1")
    if common["device"] == "cpu":
        return {**chosen, "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and "cpu" not in platforms.split(","):  # JAX keeps its CPU beside a GPU
        chosen["JAX_PLATFORMS"] = f"{platforms},cpu"
    return chosen


class Rows:
    """The rows of one JSON file, which grows with each request and outlives whatever is killed.

    Args:
        path: of the file; None to keep them in memory alone.
        anew: whether what is in the file is dropped.

    Raises:
        ValueError: where the file holds anything else.
    """

    def __init__(self, path: str | Path | None, anew: bool = False):
        self.path = None if path is None else Path(path)
        self._rows: dict[str, Row] = {}
        if self.path is not None and self.path.exists() and not anew:
            self._rows = {key_of(row): row for row in read_rows(self.path)}

    def __iter__(self):
        return iter(self._rows.values())

    def has(self, request: Request) -> bool:
        """Whether a request is measured; one whose measurement failed is not."""
        return all("failed" not in self._rows.get(key_of(cell), {"failed": ""}) for cell in cells_of(request))

    def add(self, rows: Sequence[Row]) -> None:
        """Adds rows, or replaces those of the same cells, and writes the file atomically."""
        self._rows |= {key_of(row): row for row in rows}
        if self.path is not None:
            write_text(self.path, json.dumps(list(self._rows.values()), indent=1))

    def check_device(self, device: str) -> None:
        """Raises `ValueError` where there are rows of another device: they would be compared."""
        others = {row["device"] for row in self if row.get("device", device) != device}
        if others:
            raise ValueError(
                f"--json={self.path} holds rows of {', '.join(sorted(others))}, and this is {device}. "
                "Name another file."
            )


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a file.

    Raises:
        ValueError: where it holds anything else.
    """
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "arch" in row for row in rows):
        raise ValueError(f"{path} holds no rows of a benchmark; expected a list of objects with an 'arch'.")
    return rows


def measure_requests(
    requests: Sequence[Request],
    rows: Rows,
    common: Mapping[str, Any],
    seconds: float,
    *,
    ask: Any = answers,
) -> None:
    """Measures requests in order and adds their rows.

    A request that would end too late by what is expected is left for another time, and one that does is
    stopped. One that breaks its process is recorded as failed, and the next one gets another process. In CPU
    time each does, so that none works in memory that others have left in pieces.

    Args:
        requests: to be measured.
        rows: to which theirs are added at once.
        common, ask: see `answers`.
        seconds: there are.

    Raises:
        ValueError: where there is no such device, or `rows` has those of another.
        OSError: where a process cannot begin, or measuring CPU time fails.
    """
    end, left, one_core = time.monotonic() + seconds, list(requests), common["clock"] == "cpu"

    def there() -> float:
        return end - time.monotonic()

    while left and expected_seconds(left[0], rows) <= there():
        device = None
        for answer in ask(left[:1] if one_core else left[:], common, there()):
            if "error" in answer:
                raise ValueError(answer["error"])
            if "device" in answer:
                device = answer["device"]
                rows.check_device(device)
            else:
                if device is None:
                    raise OSError(f"the process that measures cannot begin: {answer['died']}")
                if "died" in answer and there() <= 0:
                    break
                lost = {"device": device, "failed": answer.get("died")}
                found = answer.get("rows") or [{**cell, **lost} for cell in cells_of(left[0])]
                name = label_of({**found[0], "variant": "+".join(left[0]["variants"])})
                if one_core and "failed" in found[0]:
                    raise OSError(f"measuring {name} failed: {found[0]['failed']}")
                rows.add(found)
                left.pop(0)
                print(f"{name}: {found[0].get('failed', 'measured')}", file=sys.stderr, flush=True)
            if not left or expected_seconds(left[0], rows) > there():
                break
    if left:
        print(f"The time is up: {len(left)} cells are left. The same command measures them.")
