"""What `launch/sweep.py --dry_run` prints."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from modtf.cell import Cell
from modtf.engines.state import state_of
from modtf.engines.threads import default_workers, processors
from modtf.studies.estimate import Estimate, estimate
from modtf.studies.speed import device_name, on_accelerator
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
    print(f"\n{_sums(cells, found, states, workers)}")


def _sums(
    cells: Sequence[Cell], found: Sequence[Estimate], states: dict[str, str], workers: int | None
) -> str:
    left = [e for cell, e in zip(cells, found, strict=True) if states[cell.folder] != "finished"]
    hours = sum(cost.hours for cost in left)
    size = min(workers or default_workers(), max(1, len(left)))
    at_once = len(accelerators()) if on_accelerator() else processors()
    wall = max(hours / min(size, at_once), max((cost.hours for cost in left), default=0.0))
    counts = ", ".join(f"{count} {name}" for name, count in Counter(states.values()).items())
    memory = max((cost.gigabytes for cost in left), default=0.0)
    return (
        f"{len(cells):,} cells ({counts}), {sum(len(cell.members) for cell in cells):,} models of one shape "
        f"each.\nLeft to do: about {_time(hours)} of {device_name()}; with {size} workers here at least "
        f"{_time(wall)}. A worker takes up to {memory:.1f} GB.\n"
        "Measured: one or two shapes of every kind. Estimated: parameters, by one variant of a size; time, "
        "in proportion to parameters and tokens; trust it to a factor of two."
    )


def _number(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _time(hours: float) -> str:
    if hours >= YEAR:
        return f"{hours / YEAR:,.1f} years"
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
