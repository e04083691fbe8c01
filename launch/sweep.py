"""Runs all unfinished cells of a study: on this machine, as a job of an array, or on a cluster.

A study is a short Python file (--study lists the built-in ones), or a combination of the lists in the flags.
Try --dry_run first: it lists the cells and estimates their cost. Rerun the command to resume a study that was
killed or extended; several processes and machines may share --out.

Examples:
    python launch/sweep.py --study=quick --dry_run
    python launch/sweep.py --study=my_study.py --out=runs/mine --workers=4
    python launch/sweep.py --arch=mlp,mha --rules=2,8 --width=32
    python launch/sweep.py --study=paper --shard=$SLURM_ARRAY_TASK_ID/100 --out=/shared/paper
    python launch/sweep.py --study=paper --engine=ray --cpus_per_cell=1 --out=/shared/paper
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

import inspect
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from absl import flags

from modtf.base.files import check_writable
from modtf.base.words import command_line, plural
from modtf.engines import ENGINES
from modtf.launch.cells import (
    cells_given,
    define_cell_flags,
    define_kind_flags,
    define_models,
    define_study,
    warn_without_effect,
)
from modtf.launch.cli import Definer, run_command
from modtf.launch.set_options import define_best, define_settings, with_best
from modtf.studies.grid import check_memory, shard_of
from modtf.tasks.cell import Cell
from modtf.training.xla import note_on_xla

if TYPE_CHECKING:
    from modtf.engines import Engine
    from modtf.studies.estimate import CostEstimate

SHOWN = 10  # failures that are listed
YEAR = 24 * 365  # hours
#: option of an engine -> its flag
OF_ENGINES = {"workers": "workers", "cpus": "cpus_per_cell", "gpus": "gpus_per_cell"}


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    define_study(values)
    define.string("out", None, "The folder to write to. The default is runs/STUDY.")
    define.bool("dry_run", False, "List the cells with their estimated cost, and run nothing.")
    words = "With --dry_run: measure a few steps of one cell per architecture on this machine, in place of "
    define.bool("measure_cost", False, f"{words}the known speed of a core.")
    define_engines(values)
    define_best(values)
    define_kind_flags(values, several=True)
    define_cell_flags(values, several=True)
    define_models(values)
    define_settings(values)


def define_engines(values: flags.FlagValues) -> None:
    """Add the flags that choose the engine, and its share of the cells."""
    define = Definer(values)
    define.enum("engine", "local", list(ENGINES), "The engine that runs the cells.")
    words = "local: the number of processes. The default is one per processor, or one if there is a GPU."
    define.integer("workers", None, words)
    define.float("cpus_per_cell", 1.0, "ray: the number of processors per cell.")
    define.float("gpus_per_cell", 0.0, "ray: the number of GPUs per cell. With 0.5, two cells share a GPU.")
    define.string("shard", None, "For job arrays: i/n runs every n-th cell, beginning with cell i (from 0).")
    define.bool("retry_failed", False, "Run failed cells again.")


def main(values: flags.FlagValues) -> None:
    """Preview or run the study; exit with status 1 unless every cell is finished at the end."""
    if values.measure_cost and not values.dry_run:
        raise ValueError("--measure_cost applies to --dry_run only. Add --dry_run, or leave it out.")
    name, cells, plugins = cells_given(values)
    cells = with_best(cells, values)
    warn_without_effect(cells, values)
    every, cells = cells, cells if values.shard is None else shard_of(cells, values.shard)
    out = check_writable(values.out or Path("runs", name), "--out")
    models = sum(len(cell.members) for cell in cells)
    print(f"{name}: {plural(len(cells), 'cell')}, {plural(models, 'model')}. Writing to {out}", flush=True)
    if values.dry_run:
        preview(cells, out, values.workers, values.measure_cost)
        return
    from modtf.engines.run_study import run_study
    from modtf.engines.state import write_asked

    if note := note_on_xla(cells):
        print(note, flush=True)
    with closing(engine_of(cells, out, values)) as engine:
        write_asked(every, out)  # those of other shards, too
        summary = run_study(cells, out, engine, plugins=plugins, retry_failed=values.retry_failed)
    failed = summary.failed
    print(f"{plural(summary.finished, 'cell')} finished now, {summary.before} before, {len(failed)} failed.")
    for folder, reason in list(failed.items())[:SHOWN]:
        print(f"  {out / folder}/error.json: {reason}")
    if len(failed) > SHOWN:
        print(f"  and {len(failed) - SHOWN} more")
    if failed:
        sys.exit(1)
    print(f"Look at it: {command_line('report', results=out, out=f'{out}_report')}")


def engine_of(cells: Sequence[Cell], out: Path, values: flags.FlagValues) -> "Engine":
    """Return the engine; raise `ValueError` if a cell does not fit into memory, or a flag belongs to another
    engine."""
    from modtf.engines.state import state_of

    chosen = ENGINES[values.engine]
    if chosen.is_here:
        check_memory([cell for cell in cells if state_of(cell, out).name != "finished"])
    known, options = inspect.signature(chosen).parameters, {}
    for option, flag in OF_ENGINES.items():
        if option in known:
            options[option] = values[flag].value
        elif values[flag].present:
            raise ValueError(f"--{flag} has no meaning for --engine={values.engine}. Leave it out.")
    return chosen(**options)


def preview(cells: Sequence[Cell], out: Path, workers: int | None, measured: bool = False) -> None:
    """Print every cell with its models, steps, estimated cost and state, then the sums."""
    from modtf.engines.state import state_of
    from modtf.studies.estimate import estimate

    costs = estimate(cells, measured, say=lambda line: print(line, flush=True))
    states = {cell.folder: state_of(cell, out).name for cell in cells}
    pairs = list(zip(cells, costs, strict=True))
    width = max(len(cell.label) for cell in cells)
    print(f"\n{'cell'.ljust(width)}  models      steps   parameters      hours   GB  state")
    for cell, cost in pairs:
        hours = f"{cost.hours:,.0f}" if cost.hours >= 100 else f"{cost.hours:.3g}"
        print(
            f"{cell.label.ljust(width)}  {len(cell.members):6}  {cell.protocol.training.steps:9,}  "
            f"{cost.parameters:11,}  {hours:>9}  {cost.gigabytes:3.0f}  {states[cell.folder]}"
        )
    done = [(cell, cost) for cell, cost in pairs if states[cell.folder] == "finished"]
    left = [cost for cell, cost in pairs if states[cell.folder] != "finished"]
    counts = ", ".join(f"{count} {name}" for name, count in Counter(states.values()).items())
    models = plural(sum(len(cell.members) for cell in cells), "model")
    print(f"\n{plural(len(cells), 'cell')} ({counts}), {models}. The models of a cell have the same shape.")
    _print_sum(left, workers, measured)
    print(_accuracy(done, out, measured))


def _print_sum(left: "Sequence[CostEstimate]", workers: int | None, measured: bool) -> None:
    from modtf.studies.estimate import on_accelerator
    from modtf.training.machine import accelerators, default_workers, processor_name, processors

    hours, longest = sum(cost.hours for cost in left), max((cost.hours for cost in left), default=0.0)
    size = min(workers or default_workers(), max(1, len(left)))
    devices = accelerators() if measured and on_accelerator() else []
    wall = max(hours / min(size, len(devices) or processors()), longest)
    device = devices[0] if devices else f"one core of {processor_name()}" if measured else "a core"
    memory = max((cost.gigabytes for cost in left), default=0.0)
    print(
        f"Left to do: about {_time(hours)} of {device}, at least {_time(wall)} with {size} workers on this "
        f"machine. A worker uses up to {memory:.1f} GB."
    )


def _accuracy(done: "Sequence[tuple[Cell, CostEstimate]]", out: Path, measured: bool) -> str:
    """Return how far the estimates were off for the trained cells."""
    from modtf.results.schema import RESULTS, read_values

    ratios = []
    for cell, cost in done:
        frame = read_values(out / cell.folder / RESULTS)
        seconds = frame.loc[(frame["measure"] == "seconds") & (frame["checkpoint"] == "last"), "value"]
        ratios.append(seconds.sum() / 3600 / cost.training)
    words = "Costs are in proportion to parameters and tokens. "
    words += "One cell per architecture was measured" if measured else "--measure_cost measures this machine"
    if not ratios:
        return f"{words}. Estimates may be wrong by a factor of two."
    ratios.sort()
    return (
        f"{words}.\nThe {plural(len(ratios), 'cell')} finished so far took {median(ratios):.2g} times the "
        f"estimated time to train (wall time; between {ratios[0]:.2g} and {ratios[-1]:.2g} times)."
    )


def _time(hours: float) -> str:
    if hours >= YEAR:
        return f"{hours / YEAR:,.1f} years"
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)
