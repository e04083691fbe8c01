"""Trains the four variants on one cell of the study and prints how they compare.

Streams a task whose rules are known, trains each variant on the same members (tasks x seeds, in
lock-step as one program), measures performance in and out of distribution, collapse and
specialisation, and writes everything under --out. The same command resumes a killed run, and prints
the table again at once when all is done.

Examples:
    python launch/run.py --arch=mlp
    python launch/run.py --arch=mha --search=v2 --rules=8 --tasks=2 --seeds=3
    python launch/run.py --arch=rnn --preset=paper --out=runs/rnn
"""

import json
from dataclasses import replace
from pathlib import Path

from absl import flags

from modtf.cell import Cell
from modtf.files import write_text
from modtf.launch.cli import check_writable, quiet_tensorflow, run_command
from modtf.models.routers import ROUTERS
from modtf.models.sizes import check_width
from modtf.presets import PRESETS
from modtf.task import ARCHITECTURES, SEARCHES, SETTINGS, Task, check_choice, check_integer

FLAGS = flags.FLAGS
RUN = "run.json"


def define_flags(values: flags.FlagValues = FLAGS) -> None:
    """Adds the flags of this command."""
    enum, integer = flags.DEFINE_enum, flags.DEFINE_integer
    enum("arch", "mlp", ARCHITECTURES, "Architecture, and the task made for it.", flag_values=values)
    enum("search", None, SEARCHES, "mha only: how tokens search; default v1.", flag_values=values)
    enum("setting", "regression", SETTINGS, "What is predicted.", flag_values=values)
    flags.DEFINE_list("variant", list(ROUTERS), "Variants, separated by commas.", flag_values=values)
    enum("preset", "quick", list(PRESETS), "quick: minutes on two cores, not the paper's protocol. "
         "paper: as published, many hours.", flag_values=values)  # fmt: skip
    integer("rules", None, "Rules of the task, and modules; default from the preset.", flag_values=values)
    integer("width", None, "Width e of the encoders; the inner width is 4e.", flag_values=values)
    integer("tasks", None, "How many tasks (data seeds 0, 1, ...).", flag_values=values)
    integer("seeds", None, "How many seeds per task (0, 1, ...).", flag_values=values)
    integer("steps", None, "Training steps.", flag_values=values)
    flags.DEFINE_float("learning_rate", None, "Of Adam.", flag_values=values)
    integer("batch_size", None, "Examples per member and step.", flag_values=values)
    enum("strategy", "auto", ["auto", "mirrored"], "mirrored: all local GPUs share every batch. auto: so "
         "where there are several.", flag_values=values)  # fmt: skip
    flags.DEFINE_string("out", None, "Folder to write to; default runs/LABEL.", flag_values=values)


def cells_of_flags(given: flags.FlagValues) -> list[Cell]:
    """The cells that the flags ask for, one per variant.

    Raises:
        ValueError: on values that have no meaning together.
    """
    task = Task(arch=given.arch, setting=given.setting, search=given.search)
    preset = PRESETS[given.preset](given.arch)

    def chosen(name: str, default: int, low: int) -> int:
        value = given[name].value
        check_integer(f"--{name}", default if value is None else value, low)
        return default if value is None else value

    task = replace(task, num_rules=chosen("rules", preset.num_rules, 2))
    width = chosen("width", preset.width, 1)
    check_width(given.arch, width, task.num_rules)
    members = tuple(
        (data_seed, seed)
        for data_seed in range(chosen("tasks", preset.tasks, 1))
        for seed in range(chosen("seeds", preset.seeds, 1))
    )
    training = replace(
        preset.training,
        steps=chosen("steps", preset.training.steps, 1),
        batch_size=chosen("batch_size", preset.training.batch_size, 1),
    )
    if given.learning_rate is not None:
        if not 0 < given.learning_rate < 1:
            raise ValueError(f"--learning_rate={given.learning_rate} must lie between 0 and 1.")
        training = replace(training, learning_rate=given.learning_rate)
    if not given.variant:
        raise ValueError(f"--variant is empty; expected some of {', '.join(ROUTERS)}.")
    for variant in given.variant:
        check_choice("--variant", variant, tuple(ROUTERS))
    variants = [variant for variant in ROUTERS if variant in given.variant]
    return [Cell(task, width, variant, members, training, preset.evaluation) for variant in variants]


def check_folder(out: Path, cells: list[Cell]) -> str:
    """What `run.json` holds of these cells; raises `ValueError` if the one in `out` says otherwise."""
    configuration = cells[0].to_dict()
    del configuration["cell"]["variant"]  # variants may be added later
    text = json.dumps(configuration, indent=1, sort_keys=True)
    path = out / RUN
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ValueError(f"--out={out} holds another configuration ({path}); choose another folder.")
    return text


def main() -> None:
    """Runs the cells one after the other, then prints the table."""
    cells = cells_of_flags(FLAGS)
    label = cells[0].label.removesuffix(f"_{cells[0].variant}")
    out = check_writable(FLAGS.out or Path("runs", f"{label}_{FLAGS.preset}"))
    configuration = check_folder(out, cells)
    first = cells[0]
    print(
        f"{label}: {len(cells)} variants x {len(first.members)} members, {first.training.steps:,} steps at "
        f"learning rate {first.training.learning_rate:g} (preset {FLAGS.preset}). Writing to {out}",
        flush=True,
    )
    from modtf.analysis.table import results_table
    from modtf.results import load_results
    from modtf.results.schema import RESULTS

    unfinished = [cell for cell in cells if not (out / cell.folder / RESULTS).exists()]
    if unfinished:
        quiet_tensorflow()
        from modtf.engines.cell import run_cell
        from modtf.training.strategy import choose_strategy

        strategy = choose_strategy(FLAGS.strategy, first.training.batch_size)
        write_text(out / RUN, configuration)  # only now: nothing is written on bad input
        for cell in unfinished:
            run_cell(cell, out, strategy=strategy)
    frame = load_results([str(out / cell.folder) for cell in cells])
    frame = frame[frame["checkpoint"] == "last"]
    tasks, seeds = (len({member[i] for member in first.members}) for i in range(2))
    print(f"\n{results_table(frame)}\n")
    print(
        f"mean ±95% interval over {len(first.members)} models a row ({tasks} tasks x {seeds} seeds); "
        "smaller is better everywhere.\nout: inputs x 2"
        + (", 30 tokens" if first.task.is_sequence else "")
        + ". "
        f"seconds: training, per model.\nLook inside: tensorboard --logdir {out}"
    )


if __name__ == "__main__":
    define_flags()
    run_command(main, resumes=True)
