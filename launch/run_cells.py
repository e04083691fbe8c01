"""The cells that the flags of `launch/run.py` and `launch/tune.py` speak of: one kind of task, one size."""

from collections.abc import Sequence

from absl import flags

from modtf.cell import Cell
from modtf.checks import check_choice, check_integer
from modtf.families import FAMILIES
from modtf.launch.settings import change_protocol, model_settings, router_settings, settings_given
from modtf.memory import check_members
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.sizes import check_width
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS, default_variants
from modtf.protocol import PRECISIONS, PRESETS, preset
from modtf.task import Task


def define_kind_flags(values: flags.FlagValues) -> None:
    """Adds --arch and --variant."""
    flags.DEFINE_enum("arch", next(iter(FAMILIES)), list(FAMILIES), "Family of tasks, and the network made "
                      "for it.", flag_values=values)  # fmt: skip
    listed = f"Variants, separated by commas, of {', '.join(ROUTERS)}."
    flags.DEFINE_list("variant", default_variants(), listed, flag_values=values)


def define_cell_flags(values: flags.FlagValues, out: str) -> None:
    """Adds what else a cell is made of, and --out.

    Args:
        values: where to add them.
        out: the words about --out.
    """
    enum, integer = flags.DEFINE_enum, flags.DEFINE_integer
    settings = list(dict.fromkeys(name for family in FAMILIES.values() for name in family.settings))
    enum("preset", "quick", list(PRESETS), "quick: minutes on two cores, not the paper's protocol. "
         "paper: as published, many hours.", flag_values=values)  # fmt: skip
    flags.DEFINE_string("out", None, out, flag_values=values)
    integer("rules", None, "Rules R of the task; default from the preset.", flag_values=values)
    integer("width", None, "Width e of the encoders; the inner width is 4e.", flag_values=values)
    integer("tasks", None, "How many tasks (data seeds 0, 1, ...).", flag_values=values)
    integer("seeds", None, "How many seeds per task (0, 1, ...).", flag_values=values)
    integer("steps", None, "Training steps.", flag_values=values)
    enum("setting", "regression", settings, "What is predicted.", flag_values=values)
    flags.DEFINE_float("learning_rate", None, "Of Adam.", flag_values=values)
    integer("batch_size", None, "Examples per member and step.", flag_values=values)
    enum("precision", "float32", PRECISIONS, "Of matrix products; tf32, mixed_bfloat16: faster and "
         "coarser, on devices that have them.", flag_values=values)  # fmt: skip
    enum("architecture", None, list(ARCHITECTURES), "Another network than the one made for the family.",
         flag_values=values)  # fmt: skip


def define_models(values: flags.FlagValues) -> None:
    """Adds --model."""
    flags.DEFINE_list("model", [], "Registered keras.Models of your own to stand beside them, separated by "
                      "commas; see --plugin.", flag_values=values)  # fmt: skip


def cells_of_flags(given: flags.FlagValues, models: Sequence[str] = ()) -> list[Cell]:
    """The cells that the flags ask for, one per variant, then one per model of the user's.

    Args:
        given: the flags.
        models: names of registered models.

    Raises:
        ValueError: on values that have no meaning together.
    """
    settings, models = settings_given(given), list(dict.fromkeys(models))
    task = Task(given.arch, given.setting, **settings["task"])
    chosen_preset = preset(given.preset, task)

    def chosen(name: str, default: int, low: int) -> int:
        value = given[name].value
        return check_integer(f"--{name}", default if value is None else value, low)

    task = task.replace(num_rules=chosen("rules", chosen_preset.num_rules, 2))
    width = chosen("width", chosen_preset.width, 1)
    tasks, seeds = chosen("tasks", chosen_preset.tasks, 1), chosen("seeds", chosen_preset.seeds, 1)
    check_members(tasks * seeds, f"--tasks={tasks} --seeds={seeds}")
    members = tuple((data_seed, seed) for data_seed in range(tasks) for seed in range(seeds))
    protocol = chosen_preset.protocol
    protocol = protocol.replace(steps=chosen("steps", protocol.training.steps, 1))
    protocol = protocol.replace(batch_size=chosen("batch_size", protocol.training.batch_size, 1))
    protocol = protocol.replace(precision=given.precision)
    if given.learning_rate is not None:
        if not 0 < given.learning_rate < 1:
            raise ValueError(f"--learning_rate={given.learning_rate} must lie between 0 and 1.")
        protocol = protocol.replace(learning_rate=given.learning_rate)
    protocol = change_protocol(protocol, settings, task.family)
    variants = chosen_variants(given.variant, models)
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


def chosen_variants(given: Sequence[str] | None, models: Sequence[str]) -> list[str]:
    """Those of --variant, each once, in their order.

    Raises:
        ValueError: on a name that is not known, of them or of `models`, or none at all.
    """
    if not given and not models:
        raise ValueError(f"--variant is empty; expected some of {', '.join(ROUTERS)}.")
    for variant in given or []:
        check_choice("--variant", variant, ROUTERS)
    for name in models:
        if name not in MODELS:
            raise ValueError(
                f"--model={name!r} is not known; registered: {', '.join(MODELS) or 'none'}. A file that "
                "registers it, with @modtf.register_model, is given by --plugin=FILE."
            )
    return [variant for variant in ROUTERS if variant in (given or [])]
