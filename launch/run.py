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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from modtf.base.checks import check_choice, check_path
from modtf.base.files import check_writable, regular_file, write_text
from modtf.base.words import tensorboard_line
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
from modtf.studies.point import OPTIONS
from modtf.tasks.cell import VARIANTS, Cell
from modtf.tasks.protocol import PLACES, STRATEGIES, preset

if TYPE_CHECKING:
    from modtf.engines.state import State

RUN = "run.json"


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define_kind_flags(values)
    define_cell_flags(values, "The folder to write to. The default is runs/LABEL.")
    define_models(values)
    define_best(values)
    define = Definer(values)
    words = "The checkpoint to print: tail (the mean of the last ten evaluations), last or best. All are "
    define.string("checkpoint", None, f"{words}written. The default is the family's, usually tail.")
    words = (
        "mirrored: all local GPUs share every batch. members: each GPU trains some of the members. auto: one "
    )
    define.enum("strategy", "auto", STRATEGIES, f"{words}device, unless there are several GPUs.")
    words = "Where data are made. device: by the compiled program. auto: device on accelerators, else host."
    define.enum("data", "auto", PLACES, words)
    define.bool(
        "wait",
        False,
        "Wait for another process that works on a cell. Without this flag the command ends and names the "
        "process.",
    )
    define_settings(values)


def check_folder(out: Path, cells: list[Cell], best: str | None = None) -> str:
    """Return the text of `run.json` for these cells, with the folder `best` of the tuning in place of its
    results; raise `ValueError` if the file in `out` differs."""
    shared = shared_cell(cells)
    configuration = replace(shared, protocol=shared.common_protocol).to_dict()
    for name in ("variant", "router"):
        del configuration["cell"][name]  # variants may be added later
    configuration |= {"best": best} if best else {}
    text = json.dumps(configuration, indent=1, sort_keys=True)
    path = out / RUN
    if path.exists() and regular_file(path).read_bytes() != text.encode():
        raise ValueError(
            f"--out={out} holds results of another configuration ({path}). Choose another folder."
        )
    return text


def shared_cell(cells: list[Cell]) -> Cell:
    """Return a cell with the properties that all share; registered models may be added later."""
    return next((cell for cell in cells if cell.runs not in MODELS), replace(cells[0], model={}))


@dataclass(frozen=True)
class Asked:
    """The cells that the flags ask for, before their state on disk is known."""

    cells: list[Cell]  # one per variant; with --best, with the tuned settings
    plain: list[Cell]  # from the flags alone
    out: Path
    checkpoint: str  # its measures are printed
    configuration: str  # the text of `run.json`
    label: str  # of the properties that all cells share
    learning_rate: str  # in words
    preset: str  # its name


def main(values: flags.FlagValues) -> None:
    """Resolve the cells, check them, train the unfinished ones, and print the table."""
    asked = resolve(values)
    states = look_up(asked)
    announce(asked)
    left_out = train(asked, states, values)
    print_table(asked, left_out)


def resolve(values: flags.FlagValues) -> Asked:
    """Return the cells of the flags, and the folder to write to; raise `ValueError` on invalid flags."""
    plain = cells_of_flags(values)
    cells = with_best(plain, values)
    warn_without_effect(cells, values)
    first = shared_cell(plain)
    label = replace(first, router={}).label.replace(f"_{first.variant}", "", 1)
    name = f"{label}_{values.preset}" + ("_best" if values.best else "")
    out = Path(values.out or Path("runs", name))
    check_path("--out", out)
    configuration = check_folder(out, plain, values.best)
    from modtf.results.schema import CHECKPOINTS  # pandas takes time

    checkpoint = values.checkpoint or first.task.family.checkpoint
    check_choice("--checkpoint", checkpoint, CHECKPOINTS)
    training = plain[0].protocol.training
    rates = {cell.protocol.training.learning_rate for cell in plain}
    rate = (
        "the rates found"
        if values.best
        else f"learning rate {' or '.join(map('{:g}'.format, sorted(rates)))}"
    )
    rate += f", {training.schedule}" if training.schedule else ""
    return Asked(cells, plain, out, checkpoint, configuration, label, rate, values.preset)


def look_up(asked: Asked) -> "dict[str, State]":
    """Return the state of every cell by its folder; check that the unfinished ones can be run."""
    from modtf.engines.state import state_of

    states = {cell.folder: state_of(cell, asked.out) for cell in asked.cells}
    unfinished = _unfinished(asked.cells, states)
    if unfinished:
        check_writable(asked.out, "--out")
        for cell in unfinished:
            check_size(cell)
        from modtf.datasets.families.base import check_data

        check_data(asked.plain[0].task)  # before the variants: not their fault
    return states


def announce(asked: Asked) -> None:
    """Print what will be trained, and which options apply to some variants only."""
    members = len(asked.plain[0].members)
    steps = " or ".join(f"{n:,}" for n in sorted({cell.protocol.training.steps for cell in asked.plain}))
    print(
        f"{asked.label}: {len(asked.cells)} variants x {members} members, {steps} steps at "
        f"{asked.learning_rate} (preset {asked.preset}). Writing to {asked.out}",
        flush=True,
    )
    for namespace in OPTIONS:
        given = [(cell.variant, getattr(cell, namespace)) for cell in asked.plain]
        for name in dict.fromkeys(name for _, options in given for name in options):
            users = [variant for variant, options in given if name in options]
            if len(users) < len(given):
                print(f"{namespace}.{name} applies to {', '.join(users)} only.", flush=True)


def train(asked: Asked, states: "dict[str, State]", values: flags.FlagValues) -> list[Cell]:
    """Train the unfinished cells, registered models first; return those that cannot be built."""
    unfinished = _unfinished(asked.cells, states)
    if not unfinished:
        return []
    from modtf.engines.cell import run_cell
    from modtf.engines.state import write_asked
    from modtf.training.strategy import choose_strategy

    for cell in asked.plain:  # batches of all sizes must divide among the devices
        strategy = choose_strategy(values.strategy, cell.protocol.training.batch_size, len(cell.members))
    left_out = refused(unfinished, alone=len(asked.cells) == 1)
    if len(left_out) == len(asked.cells):
        raise ValueError("no variant is left to run; the reasons are printed above.")
    unfinished = [cell for cell in unfinished if cell not in left_out]
    write_text(asked.out / RUN, asked.configuration)  # after all checks: bad input writes nothing
    write_asked(unfinished, asked.out)
    for remark in filter(None, (state.remark(name) for name, state in states.items())):
        print(remark, flush=True)
    for cell in sorted(unfinished, key=lambda cell: cell.runs not in MODELS):  # user models may fail
        run_cell(
            cell,
            asked.out,
            strategy=strategy,
            data=values.data,
            wait=values.wait,
            state=states[cell.folder],
        )
    return left_out


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


def print_table(asked: Asked, left_out: Sequence[Cell]) -> None:
    """Print how the variants compare; raise `ValueError` if some were left out."""
    from modtf.analysis.table import results_table, sizes_note, table_note
    from modtf.results import load_results

    frame = load_results([str(asked.out / cell.folder) for cell in asked.cells if cell not in left_out])
    frame = frame[frame["checkpoint"] == asked.checkpoint]
    first = shared_cell(asked.plain)
    sizes = sizes_note(first, asked.checkpoint, preset(asked.preset, first.task).protocol)
    print(f"\n{results_table(frame)}\n\n{table_note(frame)}\n{sizes}")
    print(f"Look inside: {tensorboard_line(asked.out)}")
    if left_out:
        names = ", ".join(cell.variant for cell in left_out)
        raise ValueError(f"left out: {names}. The reasons are printed above.")


def _unfinished(cells: Sequence[Cell], states: "dict[str, State]") -> list[Cell]:
    return [cell for cell in cells if states[cell.folder].name != "finished"]


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)
