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
from pathlib import Path

from absl import flags

from modtf.cell import VARIANTS, Cell
from modtf.checks import check_choice, check_integer
from modtf.families import FAMILIES
from modtf.files import write_text
from modtf.launch.cli import check_writable, run_command
from modtf.launch.settings import (
    change_protocol,
    define_settings,
    model_settings,
    router_settings,
    settings_given,
)
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.sizes import check_width
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS, default_variants
from modtf.protocol import PRECISIONS, PRESETS, preset
from modtf.task import Task

RUN = "run.json"


def define_flags(values: flags.FlagValues) -> None:
    """Adds the flags of this command."""
    enum, integer = flags.DEFINE_enum, flags.DEFINE_integer
    settings = list(dict.fromkeys(name for family in FAMILIES.values() for name in family.settings))
    enum("arch", next(iter(FAMILIES)), list(FAMILIES), "Family of tasks, and the network made for it.",
         flag_values=values)  # fmt: skip
    listed = f"Variants, separated by commas, of {', '.join(ROUTERS)}."
    flags.DEFINE_list("variant", default_variants(), listed, flag_values=values)
    flags.DEFINE_list("model", [], "Registered keras.Models of your own to stand beside them, separated by "
                      "commas; see --plugin.", flag_values=values)  # fmt: skip
    enum("preset", "quick", list(PRESETS), "quick: minutes on two cores, not the paper's protocol. "
         "paper: as published, many hours.", flag_values=values)  # fmt: skip
    flags.DEFINE_string("out", None, "Folder to write to; default runs/LABEL.", flag_values=values)
    integer("rules", None, "Rules R of the task; default from the preset.", flag_values=values)
    integer("width", None, "Width e of the encoders; the inner width is 4e.", flag_values=values)
    integer("tasks", None, "How many tasks (data seeds 0, 1, ...).", flag_values=values)
    integer("seeds", None, "How many seeds per task (0, 1, ...).", flag_values=values)
    integer("steps", None, "Training steps.", flag_values=values)
    enum("setting", "regression", settings, "What is predicted.", flag_values=values)
    flags.DEFINE_float("learning_rate", None, "Of Adam.", flag_values=values)
    integer("batch_size", None, "Examples per member and step.", flag_values=values)
    enum("precision", "float32", PRECISIONS, "Of matrix products; tf32: faster and coarser, on GPUs that "
         "have it.", flag_values=values)  # fmt: skip
    flags.DEFINE_string("checkpoint", "tail", "Whose measures are printed: tail, the mean of the last ten "
                        "evaluations, last or best; all are written.", flag_values=values)  # fmt: skip
    enum("architecture", None, list(ARCHITECTURES), "Another network than the one made for the family.",
         flag_values=values)  # fmt: skip
    enum("strategy", "auto", ["auto", "mirrored"], "mirrored: all local GPUs share every batch. auto: so "
         "where there are several.", flag_values=values)  # fmt: skip
    define_settings(values)


def cells_of_flags(given: flags.FlagValues) -> list[Cell]:
    """The cells that the flags ask for, one per variant, then one per model of the user's.

    Raises:
        ValueError: on values that have no meaning together.
    """
    settings = settings_given(given)
    task = Task(given.arch, given.setting, **settings["task"])
    chosen_preset = preset(given.preset, task)

    def chosen(name: str, default: int, low: int) -> int:
        value = given[name].value
        return check_integer(f"--{name}", default if value is None else value, low)

    task = task.replace(num_rules=chosen("rules", chosen_preset.num_rules, 2))
    width = chosen("width", chosen_preset.width, 1)
    members = tuple(
        (data_seed, seed)
        for data_seed in range(chosen("tasks", chosen_preset.tasks, 1))
        for seed in range(chosen("seeds", chosen_preset.seeds, 1))
    )
    protocol = chosen_preset.protocol
    protocol = protocol.replace(steps=chosen("steps", protocol.training.steps, 1))
    protocol = protocol.replace(batch_size=chosen("batch_size", protocol.training.batch_size, 1))
    protocol = protocol.replace(precision=given.precision)
    if given.learning_rate is not None:
        if not 0 < given.learning_rate < 1:
            raise ValueError(f"--learning_rate={given.learning_rate} must lie between 0 and 1.")
        protocol = protocol.replace(learning_rate=given.learning_rate)
    protocol = change_protocol(protocol, settings, task.family)
    variants, models = chosen_models(given)
    architecture = given.architecture or task.family.architecture
    if variants:
        check_width(architecture, width, task.num_rules, settings["router"].get("modules"))
    router = router_settings(settings, variants)
    model, of_models = model_settings(settings, architecture if variants else None, models)
    return [
        *(Cell(task, width, variant, members, protocol, router[variant], model, architecture)
          for variant in variants),
        *(Cell(task, width, name, members, protocol, model=of_models[name]) for name in models),
    ]  # fmt: skip


def chosen_models(given: flags.FlagValues) -> tuple[list[str], list[str]]:
    """The names that --variant and --model give, each once.

    Raises:
        ValueError: on a name that is not known, or none at all.
    """
    if not given.variant and not given.model:
        raise ValueError(f"--variant is empty; expected some of {', '.join(ROUTERS)}.")
    for variant in given.variant or []:
        check_choice("--variant", variant, ROUTERS)
    for name in given.model:
        if name not in MODELS:
            raise ValueError(
                f"--model={name!r} is not known; registered: {', '.join(MODELS) or 'none'}. A file that "
                "registers it, with @modtf.register_model, is given by --plugin=FILE."
            )
    return [v for v in ROUTERS if v in (given.variant or [])], list(dict.fromkeys(given.model))


def check_folder(out: Path, cells: list[Cell]) -> str:
    """What `run.json` holds of these cells; raises `ValueError` if the one in `out` says otherwise."""
    configuration = shared_cell(cells).to_dict()
    for name in ("variant", "router"):
        del configuration["cell"][name]  # variants may be added later
    text = json.dumps(configuration, indent=1, sort_keys=True)
    path = out / RUN
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ValueError(f"--out={out} holds another configuration ({path}); choose another folder.")
    return text


def shared_cell(cells: list[Cell]) -> Cell:
    """A cell that stands for what all share: models of the user's may be added to the others later."""
    return next((cell for cell in cells if cell.variant not in MODELS), replace(cells[0], model={}))


def main(given: flags.FlagValues) -> None:
    """Runs the cells one after the other, models of the user's first, then prints the table."""
    cells = cells_of_flags(given)
    first, training = shared_cell(cells), cells[0].protocol.training
    label = replace(first, router={}).label.replace(f"_{first.variant}", "", 1)
    out = check_writable(given.out or Path("runs", f"{label}_{given.preset}"))
    configuration = check_folder(out, cells)
    from modtf.results.schema import CHECKPOINTS, RESULTS  # pandas takes time

    check_choice("--checkpoint", given.checkpoint, CHECKPOINTS)
    print(
        f"{label}: {len(cells)} variants x {len(first.members)} members, {training.steps:,} steps at "
        f"learning rate {training.learning_rate:g} (preset {given.preset}). Writing to {out}",
        flush=True,
    )
    own = [cell for cell in cells if cell.variant in MODELS]
    if own:
        from modtf.engines.source import check_source

        for cell in own:
            check_source(cell, out)
    for name in dict.fromkeys(name for cell in cells for name in cell.router):
        users = [cell.variant for cell in cells if name in cell.router]
        if len(users) < len(cells):
            print(f"router.{name} is an option of {', '.join(users)} alone.", flush=True)
    unfinished = [cell for cell in cells if not (out / cell.folder / RESULTS).exists()]
    if unfinished:
        from modtf.engines.cell import check_cell, run_cell
        from modtf.training.strategy import choose_strategy

        strategy = choose_strategy(given.strategy, training.batch_size)
        for cell in unfinished:
            if cell.router or cell.variant not in VARIANTS:  # those with anything to be wrong
                check_cell(cell)
        write_text(out / RUN, configuration)  # only now: nothing is written on bad input
        for cell in sorted(unfinished, key=lambda cell: cell not in own):  # theirs may fail
            run_cell(cell, out, strategy=strategy)
    from modtf.analysis import results_table, table_note
    from modtf.results import load_results

    frame = load_results([str(out / cell.folder) for cell in cells])
    frame = frame[frame["checkpoint"] == given.checkpoint]
    print(f"\n{results_table(frame)}\n\n{table_note(frame)}\nLook inside: tensorboard --logdir {out}")


def command() -> None:
    """The whole command."""
    run_command(main, define_flags, resumes=True)


if __name__ == "__main__":
    command()
