"""Trains the variants on one cell of the study and prints how they compare.

It streams a task whose rules are known, and trains each variant on the same members (tasks x seeds, in
lock-step as one program). It measures performance in and out of distribution, collapse and specialisation,
and writes everything under --out. Rerun the command to resume a killed run, or to print the table of a
finished one again.

Examples:
    python launch/run.py --arch=mlp
    python launch/run.py --arch=mha --search=v2 --rules=8 --tasks=2 --seeds=3
    python launch/run.py --arch=rnn --preset=paper --out=runs/rnn
    python launch/run.py --variant=modular,modular_op --set router.modules=16
    python launch/run.py --plugin=my_model.py --model=my_model
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

import json
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from modtf.base.checks import check_choice, check_integer, check_path, differences
from modtf.base.files import check_writable, regular_file, write_text
from modtf.base.words import tensorboard_line
from modtf.engines.state import locked, other_versions, state_of, write_asked
from modtf.launch.cells import (
    cells_of_flags,
    define_cell_flags,
    define_kind_flags,
    define_models,
    warn_without_effect,
)
from modtf.launch.cli import Definer, run_command
from modtf.launch.set_options import define_best, define_settings, with_best
from modtf.models.architectures.sizes import check_size
from modtf.models.own import MODELS
from modtf.results.schema import CHECKPOINTS
from modtf.studies.grid import OPTIONS
from modtf.tasks.cell import VARIANTS, Cell
from modtf.tasks.protocol import PLACES, STRATEGIES, Protocol, preset
from modtf.training.machine import default_workers
from modtf.training.xla import is_too_short_for_xla, note_on_xla

RUN = "run.json"
SHOWN = 5  # settings that differ


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define_kind_flags(values)
    define_cell_flags(values, "The folder to write to. The default is runs/LABEL.")
    define_models(values)
    define_best(values)
    define = Definer(values)
    words = "The checkpoint to print: tail (the mean of the last ten evaluations), last or best. All are "
    words += "written. The default is last if the learning rate ends at 0, else the family's, usually tail."
    define.string("checkpoint", None, words)
    words = "mirrored: all local GPUs share every batch. members: each GPU trains some of the members. auto: "
    define.enum("strategy", "auto", STRATEGIES, f"{words}one device, unless there are several GPUs.")
    words = "Where data are made. device: by the compiled program. auto: device on accelerators, else host."
    define.enum("data", "auto", PLACES, words)
    words = "The number of processes, each of which trains a variant. The default is one per processor, or "
    define.integer("workers", None, f"{words}one if there is a GPU.")
    words = "Wait for another process that works on a cell. Without this flag the command ends and names the "
    define.bool("wait", False, f"{words}process.")
    define_settings(values)


def check_folder(out: Path, cells: Sequence[Cell], best: str | None = None) -> str:
    """Return the text of `run.json` for these cells, with the folder `best` of the tuning in place of its
    results; raise `ValueError` if the file in `out` differs."""
    shared = shared_cell(cells)
    configuration = replace(shared, protocol=shared.common_protocol).to_dict()
    for name in ("variant", "router"):
        del configuration["cell"][name]  # variants may be added later
    configuration |= {"best": best} if best else {}
    text = json.dumps(configuration, indent=1, sort_keys=True)
    path = out / RUN
    if path.exists() and (found := regular_file(path).read_bytes()) != text.encode():
        with suppress(ValueError):
            found = json.loads(found)
        differ = differences(found, json.loads(text)) if isinstance(found, dict) else ["it is damaged"]
        shown = "; ".join([*differ[:SHOWN], *(["..."] if len(differ) > SHOWN else [])])
        raise ValueError(
            f"--out={out} holds results of another configuration ({path}): {shown}. Choose another folder."
        )
    return text


def check_comparable(cells: Sequence[Cell]) -> None:
    """Raise `ValueError` if the variants would be trained in ways that cannot be compared."""
    ways: dict[Protocol, list[str]] = {}
    for cell in cells:
        ways.setdefault(cell.common_protocol.replace(learning_rate=1.0), []).append(cell.variant)
    if len(ways) > 1:
        raise ValueError(
            f"Trained like this, {' cannot be compared with '.join(map(', '.join, ways.values()))}: a value "
            "for all of them is the published one of some. Choose another value (such as --steps), or fewer "
            "variants (--variant)."
        )


def shared_cell(cells: Sequence[Cell]) -> Cell:
    """Return a cell with the properties that all share; registered models may be added later."""
    return next((cell for cell in cells if cell.runs not in MODELS), replace(cells[0], model={}))


def main(values: flags.FlagValues) -> None:
    """Check the cells of the flags, train the unfinished ones, and print the table."""
    plain = cells_of_flags(values)
    cells = with_best(plain, values)  # one per variant
    check_comparable(cells)
    warn_without_effect(cells, values)
    first = shared_cell(plain)
    label = replace(first, router={}).label.replace(f"_{first.variant}", "", 1)  # shared by all cells
    out = Path(values.out or Path("runs", f"{label}_{values.preset}" + ("_best" if values.best else "")))
    check_path("--out", out)
    configuration = check_folder(out, plain, values.best)
    checkpoint = values.checkpoint or first.checkpoint
    check_choice("--checkpoint", checkpoint, CHECKPOINTS)
    unfinished = _unfinished(cells, out)
    if unfinished:
        from modtf.datasets.families.base import check_data

        check_data(first.task)  # before the variants: not their fault
    announce(plain, label, out, values)
    left_out = train(cells, unfinished, out, configuration, values) if unfinished else []
    print_table([cell for cell in cells if cell not in left_out], first, out, checkpoint, values.preset)
    if left_out:
        names = ", ".join(cell.variant for cell in left_out)
        raise ValueError(f"left out: {names}. The reasons are printed above.")


def _unfinished(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """Return the unfinished cells, and print which versions finished others; raise `ValueError` if one cannot
    run."""
    states = [state_of(cell, out) for cell in cells]
    for line in other_versions(states):
        print(line, flush=True)
    unfinished = [cell for cell, state in zip(cells, states, strict=True) if state.name != "finished"]
    if unfinished:
        check_writable(out, "--out")
        for cell in unfinished:
            check_size(cell)
    return unfinished


def announce(plain: Sequence[Cell], label: str, out: Path, values: flags.FlagValues) -> None:
    """Print what will be trained, and which options apply to some variants only."""
    training, members = plain[0].protocol.training, len(plain[0].members)
    steps = " or ".join(f"{n:,}" for n in sorted({cell.protocol.training.steps for cell in plain}))
    rates = sorted({cell.protocol.training.learning_rate for cell in plain})
    rate = "the rates found" if values.best else f"learning rate {' or '.join(map('{:g}'.format, rates))}"
    rate += f", {training.schedule}" if training.schedule else ""
    what = f"{label}: {len(plain)} variants x {members} members, {steps} steps at {rate}"
    print(f"{what} (preset {values.preset}). Writing to {out}", flush=True)
    for namespace in OPTIONS:
        given = [(cell.variant, getattr(cell, namespace)) for cell in plain]
        for name in dict.fromkeys(name for _, options in given for name in options):
            users = [variant for variant, options in given if name in options]
            if len(users) < len(given):
                print(f"{namespace}.{name} applies to {', '.join(users)} only.", flush=True)


def train(
    cells: Sequence[Cell], unfinished: Sequence[Cell], out: Path, configuration: str, values: flags.FlagValues
) -> list[Cell]:
    """Train the unfinished cells, registered models first; return those that cannot be built or have failed.

    Several cells train in worker processes. A single one trains in this process, as do all if they are short,
    or a flag says where to train or to make the data.
    """
    workers = default_workers() if values.workers is None else check_integer("--workers", values.workers, 1)
    placed = [name for name in ("strategy", "data") if values[name].value != "auto"]
    if placed and values.workers is not None and workers > 1:
        raise ValueError(f"--workers and --{placed[0]} cannot both be given. Leave one out.")
    if note := note_on_xla(unfinished):
        print(note, flush=True)
    left_out = refused(unfinished, alone=len(cells) == 1)
    if len(left_out) == len(cells):
        raise ValueError("no variant is left to run; the reasons are printed above.")
    todo = [cell for cell in unfinished if cell not in left_out]
    todo.sort(key=lambda cell: cell.runs not in MODELS)  # user models may fail
    short = values.workers is None and all(map(is_too_short_for_xla, todo))  # to start workers costs more
    here = bool(placed) or short or min(workers, len(todo)) == 1
    strategy = strategy_for(todo, values) if here else None
    for cell in todo if not values.wait else ():
        with locked(out, cell.folder):  # otherwise the error names the process
            pass
    write_text(out / RUN, configuration)  # after all checks: bad input writes nothing
    if here:
        write_asked(todo, out)
        train_here(todo, out, strategy, values)
        return left_out
    from modtf.engines.local import LocalEngine
    from modtf.engines.run_study import run_study

    with closing(LocalEngine(workers)) as engine:
        failed = run_study(todo, out, engine, plugins=values.plugin, retry_failed=True).failed
    return left_out + [cell for cell in todo if cell.folder in failed]


def strategy_for(cells: Sequence[Cell], values: flags.FlagValues) -> Any:
    """Return the result of `choose_strategy`. Batches of all sizes must divide among the devices."""
    from modtf.training.strategy import choose_strategy

    sizes = [(cell.protocol.training.batch_size, len(cell.members)) for cell in cells]
    return [choose_strategy(values.strategy, *size) for size in sizes][-1]


def train_here(cells: Sequence[Cell], out: Path, strategy: Any, values: flags.FlagValues) -> None:
    """Train cells in this process, one after the other."""
    from modtf.engines.cell import run_cell

    for number, cell in enumerate(cells, 1):
        if len(cells) > 1:
            print(f"{cell.variant}, {number} of {len(cells)}", file=sys.stderr, flush=True)
        if remark := state_of(cell, out).remark(cell.folder):
            print(remark, flush=True)
        run_cell(cell, out, strategy=strategy, data=values.data, wait=values.wait)


def refused(cells: Sequence[Cell], alone: bool) -> list[Cell]:
    """Return the cells that cannot be built, and print why.

    Raises:
        ValueError: if options that the user gave are wrong, or there is no other variant.
    """
    from modtf.engines.cell import check_builds

    left_out = []
    for cell in cells:
        chosen = cell.router or cell.model or cell.trainer or cell.runs in MODELS
        if not chosen and cell.variant in VARIANTS:
            continue  # a built-in variant with its defaults is valid
        try:
            check_builds(cell)
        except ValueError as error:
            if chosen or alone:
                raise
            print(f"{cell.variant} is left out: {error}", flush=True)
            left_out.append(cell)
    return left_out


def print_table(cells: Sequence[Cell], first: Cell, out: Path, checkpoint: str, preset_name: str) -> None:
    """Print how the variants of finished cells compare, and the verdict; `first` has what they share."""
    from modtf.analysis.report.sections import findings
    from modtf.analysis.study import Study
    from modtf.analysis.table import results_table, sizes_note, table_note

    study = Study.read([str(out / cell.folder) for cell in cells], checkpoint)
    frame = study.results
    sizes = sizes_note(first, checkpoint, preset(preset_name, first.task).protocol)
    print(f"\n{results_table(frame)}\n\n{table_note(frame)}\n{sizes}")
    print(f"Look inside: {tensorboard_line(out)}\n", *findings(study), sep="\n")


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)
