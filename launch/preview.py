"""What `launch/sweep.py --dry_run` prints."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modtf.cell import Cell
from modtf.engines.processors import default_workers, processors
from modtf.engines.state import state_of
from modtf.results.schema import RESULTS, read_values
from modtf.studies.estimate import Estimate, estimate, on_accelerator
from modtf.training.processor import processor_name
from modtf.training.provenance import accelerators

YEAR = 24 * 365


def preview(cells: Sequence[Cell], out: Path, workers: int | None) -> None:
    """Prints every cell with its models, steps, estimated cost and state, then sums."""
    found = estimate(cells, say=lambda line: print(line, flush=True))
    states = {cell.folder: state_of(cell, out).name for cell in cells}
    width = max(len(cell.label) for cell in cells)
    print(f"\n{'cell'.ljust(width)}  models      steps  ~parameters      hours   GB  state")
    for cell, cost in zip(cells, found, strict=True):
        print(
            f"{cell.label.ljust(width)}  {len(cell.members):6}  {cell.protocol.training.steps:9,}  "
            f"{cost.parameters:11,}  {_number(cost.hours):>9}  {cost.gigabytes:3.0f}  {states[cell.folder]}"
        )
    done = [(c, cost) for c, cost in zip(cells, found, strict=True) if states[c.folder] == "finished"]
    left = [cost for c, cost in zip(cells, found, strict=True) if states[c.folder] != "finished"]
    counts = ", ".join(f"{count} {name}" for name, count in Counter(states.values()).items())
    models = sum(len(cell.members) for cell in cells)
    print(f"\n{len(cells):,} cells ({counts}), {models:,} models of one shape each.")
    print(f"{_costs(left, workers)}\n{_accuracy(done, out)}")


def _costs(left: Sequence[Estimate], workers: int | None) -> str:
    hours = sum(cost.hours for cost in left)
    size = min(workers or default_workers(), max(1, len(left)))
    at_once = len(accelerators()) if on_accelerator() else processors()
    wall = max(hours / min(size, at_once), max((cost.hours for cost in left), default=0.0))
    device = accelerators()[0] if on_accelerator() else f"one core of {processor_name()}"
    memory = max((cost.gigabytes for cost in left), default=0.0)
    return (
        f"Left to do: about {_time(hours)} of {device}; with {size} workers here at least {_time(wall)}. "
        f"A worker takes up to {memory:.1f} GB."
    )


def _accuracy(done: Sequence[tuple[Cell, Estimate]], out: Path) -> str:
    """How far off the estimates of training are, on the cells that were trained."""
    ratios = []
    for cell, cost in done:
        frame = read_values(out / cell.folder / RESULTS)
        seconds = frame.loc[(frame["measure"] == "seconds") & (frame["checkpoint"] == "last"), "value"]
        ratios.append(seconds.sum() / 3600 / cost.training)
    words = (
        "Measured: one cell per architecture. Estimated: the others, in proportion to parameters and tokens"
    )
    if not ratios:
        return f"{words}; trust it to a factor of two."
    return (
        f"{words}.\nThe {len(ratios)} cells that are finished here took {np.median(ratios):.2g} times the "
        f"estimate to train ({min(ratios):.2g} to {max(ratios):.2g}), by the clock on the wall."
    )


def _number(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _time(hours: float) -> str:
    if hours >= YEAR:
        return f"{hours / YEAR:,.1f} years"
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
