"""Trains the variants on one cell of the study and prints how they compare.

Streams a task whose rules are known, trains each variant on the same members (tasks x seeds, in
lock-step as one program), measures performance in and out of distribution, collapse and
specialisation, and writes everything under --out. The same command resumes a killed run, and prints
the table again at once when all is done.

Examples:
    python launch/run.py --arch=mlp
    python launch/run.py --arch=mha --search=v2 --rules=8 --tasks=2 --seeds=3
    python launch/run.py --arch=rnn --preset=paper --out=runs/rnn
    python launch/run.py --variant=modular,modular_op --set router.modules=16
    python launch/run.py --plugin=my_model.py --model=my_model
"""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

from absl import flags

from modtf.cell import VARIANTS, Cell
from modtf.checks import check_choice, check_path
from modtf.commands import tensorboard_line
from modtf.files import check_writable, write_text
from modtf.launch.cells import cells_of_flags, define_cell_flags, define_kind_flags, define_models
from modtf.launch.cli import Definer, run_command
from modtf.launch.set_options import define_best, define_settings, with_best
from modtf.models.architectures.sizes import check_size
from modtf.models.own import MODELS
from modtf.protocol import PLACES, STRATEGIES, preset

RUN = "run.json"


def define_flags(values: flags.FlagValues) -> None:
    """Adds the flags of this command."""
    define_kind_flags(values)
    define_cell_flags(values, "Folder to write to; default runs/LABEL.")
    define_models(values)
    define_best(values)
    define = Definer(values)
    words = "Whose measures are printed: tail, the mean of ten last evaluations, last or best; all are "
    define.string("checkpoint", None, f"{words}written. Default the family's, mostly tail.")
    words = "mirrored: all local GPUs share every batch. members: each trains some of the members. auto: one "
    define.enum("strategy", "auto", STRATEGIES, f"{words}device, unless there are several GPUs.")
    words = (
        "Where data are made: device, by the compiled program; auto: so on an accelerator, else on the host."
    )
    define.enum("data", "auto", PLACES, words)
    define.bool("wait", False, "Wait for another process that works on a cell; else end, and name it.")
    define_settings(values)


def check_folder(out: Path, cells: list[Cell], best: str | None = None) -> str:
    """What `run.json` holds of these cells, without what tuning, in the folder `best`, found for each; raises
    `ValueError` if the one in `out` says otherwise."""
    configuration = shared_cell(cells).to_dict()
    for name in ("variant", "router"):
        del configuration["cell"][name]  # variants may be added later
    configuration |= {"best": best} if best else {}
    text = json.dumps(configuration, indent=1, sort_keys=True)
    path = out / RUN
    if path.exists() and path.read_bytes() != text.encode():
        raise ValueError(f"--out={out} holds another configuration ({path}); choose another folder.")
    return text


def shared_cell(cells: list[Cell]) -> Cell:
    """A cell that stands for what all share: models of the user's may be added to the others later."""
    return next((cell for cell in cells if cell.runs not in MODELS), replace(cells[0], model={}))


def main(given: flags.FlagValues) -> None:
    """Runs the cells one after the other, models of the user's first, then prints the table."""
    asked = cells_of_flags(given)
    cells = with_best(asked, given)
    first, training = shared_cell(asked), asked[0].protocol.training
    label = replace(first, router={}).label.replace(f"_{first.variant}", "", 1)
    name = f"{label}_{given.preset}" + ("_best" if given.best else "")
    out = Path(given.out or Path("runs", name))
    check_path("--out", out)
    configuration = check_folder(out, asked, given.best)
    from modtf.engines.state import state_of, write_asked  # pandas takes time
    from modtf.results.schema import CHECKPOINTS

    checkpoint = given.checkpoint or first.task.family.checkpoint
    check_choice("--checkpoint", checkpoint, CHECKPOINTS)
    states = {cell.folder: state_of(cell, out) for cell in cells}
    unfinished = [cell for cell in cells if states[cell.folder].name != "finished"]
    if unfinished:
        check_writable(out, "--out")
    for cell in unfinished:
        check_size(cell)
    if unfinished:
        from modtf.datasets.streaming import stream

        stream(first.task, 1)  # data that are not there are the fault of no variant
    rate = "the rates found" if given.best else f"learning rate {training.learning_rate:g}"
    rate += f", {training.schedule}" if training.schedule else ""
    print(
        f"{label}: {len(cells)} variants x {len(first.members)} members, {training.steps:,} steps at {rate} "
        f"(preset {given.preset}). Writing to {out}",
        flush=True,
    )
    for name in dict.fromkeys(name for cell in asked for name in cell.router):
        users = [cell.variant for cell in asked if name in cell.router]
        if len(users) < len(cells):
            print(f"router.{name} is an option of {', '.join(users)} alone.", flush=True)
    refused: dict[str, str] = {}
    if unfinished:
        from modtf.engines.cell import check_builds, run_cell
        from modtf.training.strategy import choose_strategy

        strategy = choose_strategy(given.strategy, training.batch_size, len(first.members))
        for cell in unfinished:
            if cell.router or cell.model or cell.variant not in VARIANTS:  # those with anything to be wrong
                try:
                    check_builds(cell)
                except ValueError as error:
                    if cell.router or cell.model or cell.runs in MODELS or len(cells) == 1:
                        raise
                    print(f"{cell.variant} is left out: {error}", flush=True)
                    refused[cell.folder] = cell.variant
        cells, unfinished = ([c for c in some if c.folder not in refused] for some in (cells, unfinished))
        if not cells:
            raise ValueError("no variant is left to run.")
        write_text(out / RUN, configuration)  # only now: nothing is written on bad input
        write_asked(unfinished, out)
        for remark in filter(None, (state.remark(name) for name, state in states.items())):
            print(remark, flush=True)
        for cell in sorted(unfinished, key=lambda cell: cell.runs not in MODELS):  # theirs may fail
            run_cell(cell, out, strategy=strategy, data=given.data, wait=given.wait)
    from modtf.analysis import results_table, table_note
    from modtf.analysis.table import sizes_note
    from modtf.results import load_results

    frame = load_results([str(out / cell.folder) for cell in cells])
    frame = frame[frame["checkpoint"] == checkpoint]
    note = f"{table_note(frame)}\n{sizes_note(first, checkpoint, preset(given.preset, first.task).protocol)}"
    print(f"\n{results_table(frame)}\n\n{note}\nLook inside: {tensorboard_line(out)}")
    if refused:
        raise ValueError(f"left out: {', '.join(refused.values())}; why stands above.")


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)


if __name__ == "__main__":
    command()
