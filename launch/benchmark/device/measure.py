"""Measures the cells of a table on a device, until all are or the time is up."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from modtf.files import check_writable
from modtf.launch.benchmark.device.grid import Cell, expected_seconds, label_of
from modtf.launch.benchmark.device.process import Worker, WorkerDiedError
from modtf.launch.benchmark.device.requests import cells_of_flags
from modtf.launch.benchmark.device.rows import Rows, read_rows
from modtf.launch.benchmark.device.table import print_table
from modtf.launch.benchmark.requests import how_measured


def measure_device(given: flags.FlagValues) -> None:
    """What `launch/bench.py --device` does: measures, or lists what it would, and prints the table."""
    cells, common = cells_of_flags(given), {**how_measured(given), "device": given.device}
    common["profile"] = given.profile and str(check_writable(given.profile, "--profile").absolute())
    rows = Rows(given.json)
    released = [] if given.released is None else read_rows(given.released)
    left = [cell for cell in cells if given.profile is not None or not rows.has(cell)]
    seconds = sum(expected_seconds(cell, rows) for cell in left)
    print(f"{len(cells)} cells, {len(cells) - len(left)} of them measured before; the rest may take some "
          f"{seconds / 60:.1f} minutes.", flush=True)  # fmt: skip
    if given.dry_run:
        print("\n".join(f"{expected_seconds(cell, rows):5.0f} s  {label_of(cell)}" for cell in left))
        return
    try:
        measure_cells(left, rows, common, 60 * given.minutes)
    finally:
        print_table(list(rows), released)


def measure_cells(
    cells: Sequence[Cell], rows: Rows, common: Mapping[str, Any], seconds: float, *, start: Any = Worker
) -> None:
    """Measures cells in order and adds their rows.

    A cell that would end too late by what is expected is left for another time, and one that does is stopped.
    One that breaks its process is recorded as failed, and the next one gets another process.

    Args:
        cells: to be measured.
        rows: to which each row is added at once.
        common: see `Worker`.
        seconds: there are.
        start: makes a `Worker`.
    """
    end, worker, left = time.monotonic() + seconds, None, list(cells)
    try:
        while left:
            cell, there = left[0], end - time.monotonic()
            if expected_seconds(cell, rows) > there:
                break
            if worker is None:
                worker = start(common)
                rows.check_device(worker.device)
                there = end - time.monotonic()
            print(f"{label_of(cell)} ...", end=" ", file=sys.stderr, flush=True)
            try:
                row = worker.measure(cell, there)
            except WorkerDiedError as error:
                row = {**cell, "device": worker.device, "failed": str(error)}
                worker.close()
                worker = None
                if time.monotonic() >= end:
                    print("stopped", file=sys.stderr)
                    break
            rows.add(row)
            left.pop(0)
            print(row.get("failed") or f"{row['step_ms']:.3g} ms", file=sys.stderr, flush=True)
    finally:
        if worker is not None:
            worker.close()
    if left:
        print(f"The time is up: {len(left)} cells are left. The same command measures them.")
