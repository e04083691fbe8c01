"""The cells that flags speak of: flags become points of a grid, and those become cells.

`launch/run.py` and `launch/tune.py` take one kind of task of one size; `launch/sweep.py` takes lists, which
are combined; both may name a study instead.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import flags

from modtf.cell import Cell
from modtf.checks import check_choice, check_integer
from modtf.families import FAMILIES, Family
from modtf.launch.set_options import Settings, check_known, settings_given
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS, default_variants
from modtf.protocol import PRECISIONS, PRESETS, preset
from modtf.studies.check import check_cell, check_cells
from modtf.studies.grid import Grid, Point, grid
from modtf.studies.load import STUDIES, load_study
from modtf.studies.point import OPTIONS, PARTS, cell_of, options_known

#: flag of a number -> what it is of a point, and the least that it may be
NUMBERS = {
    "rules": ("num_rules", 2),
    "width": ("width", 1),
    "tasks": ("tasks", 1),
    "seeds": ("seeds", 1),
    "steps": ("training.steps", 1),
    "batch_size": ("training.batch_size", 1),
}
#: flag of a word -> what it is of a point
WORDS = {"preset": "preset", "setting": "setting", "architecture": "architecture"}
WORDS |= {"precision": "training.precision"}
#: flag that chooses among a study's cells -> what it is of a cell
CHOOSES: dict[str, Callable[[Cell], Any]] = {
    "arch": lambda cell: cell.task.arch,
    "setting": lambda cell: cell.task.setting,
    "rules": lambda cell: cell.task.num_rules,
    "width": lambda cell: cell.width,
    "variant": lambda cell: cell.variant,
}


def define_kind_flags(values: flags.FlagValues, several: bool = False) -> None:
    """Adds --arch and --variant; where there may be several, --arch takes a list, and nothing by default."""
    words = "Family of tasks, and the network made for it."
    _define(values, "arch", words, list(FAMILIES), several, next(iter(FAMILIES)))
    defaults = dict.fromkeys(",".join(default_variants(family)) for family in FAMILIES.values())
    names = ", ".join(dict.fromkeys(name for family in FAMILIES.values() for name in _known(family)))
    words = f"Variants, separated by commas, of {names}; default the family's, {' or '.join(defaults)}."
    flags.DEFINE_list("variant", None, words, flag_values=values)


def define_cell_flags(values: flags.FlagValues, out: str | None = None, several: bool = False) -> None:
    """Adds what else a cell is made of; `out` are the words about --out, if the command has none."""
    settings = dict.fromkeys(name for family in FAMILIES.values() for name in family.settings)
    words = "quick: minutes on two cores, not the paper's protocol. paper: as published, many hours."
    _define(values, "preset", words, list(PRESETS), default="quick")
    if out is not None:
        flags.DEFINE_string("out", None, out, flag_values=values)
    _define(values, "rules", "Rules R of the task; default from the preset.", several=several)
    _define(values, "width", "Width e of the encoders; the inner width is 4e.", several=several)
    _define(values, "tasks", "How many tasks (data seeds 0, 1, ...).")
    _define(values, "seeds", "How many seeds per task (0, 1, ...).")
    _define(values, "steps", "Training steps.")
    _define(values, "setting", "What is predicted; default the family's first.", list(settings), several)
    flags.DEFINE_float("learning_rate", None, "Of Adam.", flag_values=values)
    _define(values, "batch_size", "Examples per member and step.")
    words = "Of matrix products; tf32, mixed_bfloat16: faster and coarser, on devices that have them."
    _define(values, "precision", words, PRECISIONS)
    _define(values, "architecture", "Another network than the one made for the family.", list(ARCHITECTURES))


def define_models(values: flags.FlagValues) -> None:
    """Adds --model."""
    words = "Registered keras.Models of your own to stand beside them, separated by commas; see --plugin."
    flags.DEFINE_list("model", [], words, flag_values=values)


def define_study(values: flags.FlagValues) -> None:
    """Adds --study."""
    words = f"{', '.join(STUDIES)}, or a file that defines CELLS or cells(). "
    words += f"{', '.join(f'--{name}' for name in CHOOSES)} then choose among its cells."
    flags.DEFINE_string("study", None, words, flag_values=values)


def cells_of_flags(given: flags.FlagValues) -> list[Cell]:
    """The cells that the flags ask for: of every kind one per variant, then one per model of the user's. An
    option goes to those that know it; `ValueError` on values that have no meaning, or none together."""
    archs = _listed(given.arch or [])
    if not archs:
        raise ValueError("Give --study=NAME, or say at least --arch=..., such as --arch=mlp,mha --rules=2,8.")
    for arch in archs:
        check_choice("--arch", arch, FAMILIES)
    settings = settings_given(given, several=isinstance(given.arch, list))
    grids = _grids(given, [FAMILIES[arch] for arch in dict.fromkeys(archs)], settings)
    cells = [cell_of(_sized(point)) for point in sum(grids, Grid([]))]
    if isinstance(given.arch, list):
        check_cells(cells)
    for cell in cells:
        check_cell(cell)
    return cells


def _sized(point: Point) -> Point:
    """Return a point whose evaluations are smaller where its training is shorter than the preset's; those of
    the paper stay as published."""
    name, steps = point["preset"], point.get("training.steps")
    if name == "paper" or not isinstance(steps, int) or steps < 1:  # which `cell_of` refuses
        return point
    return {**point, "protocol": lambda task: preset(name, task).shortened(steps)}


def cells_given(given: flags.FlagValues) -> tuple[str, list[Cell], list[str]]:
    """A name, the cells of --study or else of the flags, and the plug-ins that make them known.

    `ValueError` if no cell of a study agrees with the flags, or one would change its cells.
    """
    if given.study is None:
        return "sweep", cells_of_flags(given), list(given.plugin)
    study = load_study(given.study)
    return (
        study.name,
        choose_cells(study.cells, given),
        [*given.plugin, *([study.plugin] if study.plugin else [])],
    )


def choose_cells(cells: Sequence[Cell], given: flags.FlagValues) -> list[Cell]:
    """Those of a study's cells that agree with the flags; `ValueError` if none does, or a flag would change
    the cells."""
    others = [name for name in (*NUMBERS, *WORDS, "learning_rate", "model", "set") if name in given]
    changed = [name for name in others if name not in CHOOSES and given[name].present]
    changed += settings_given(given)["task"]
    if changed:
        raise ValueError(
            f"--{changed[0]} cannot be given with --study, whose file says it. Copy and change the file, or "
            "leave --study out."
        )
    for name, value_of in CHOOSES.items():
        if given[name].present:
            wanted = _whole(name, given) if name in NUMBERS else _listed(given[name].value)
            present = list(dict.fromkeys(value_of(cell) for cell in cells))
            for value in wanted:
                check_choice(f"--{name}", value, present)
            cells = [cell for cell in cells if value_of(cell) in wanted]
    return list(cells)


def _grids(given: flags.FlagValues, families: Sequence[Family], settings: Settings) -> Iterator[Grid]:
    """The points of every family; what --set says of options goes to the variants that know them."""
    models = list(dict.fromkeys(given.model if "model" in given else []))
    for name in models:
        if name not in MODELS:
            raise ValueError(
                f"--model={name!r} is not known; registered: {', '.join(MODELS) or 'none'}. A file that "
                "registers it, with @modtf.register_model, is given by --plugin=FILE."
            )
    variants = _variants(given, families)
    if not models and not any(variants.values()):
        raise ValueError(f"--variant is empty; expected some of {', '.join(_known(families[0]))}.")
    known: dict[str, dict[str, Any]] = {namespace: {} for namespace in OPTIONS if settings[namespace]}
    own: dict[tuple[str, str], dict[str, list[Any]]] = {}  # (family, variant) -> what goes to it alone
    for family in families:
        for name in (*variants[family.name], *models):
            its = own.setdefault((family.name, name), {})
            for namespace in known:
                options = options_known(namespace, family, name, given.architecture)
                known[namespace] |= options
                its |= {f"{namespace}.{k}": v for k, v in settings[namespace].items() if k in options}
    for namespace, options in known.items():
        whose = [name for _, name in own]
        if namespace == "model":
            networks = [given.architecture or f.architecture for f in families if variants[f.name]]
            whose = [*(f"the architecture {name!r}" for name in networks), *map(repr, models)]
        check_known(namespace, settings[namespace], options, " and ".join(dict.fromkeys(whose)))
    shared = _shared_axes(given) | {f"{part}.{k}": v for part in PARTS for k, v in settings[part].items()}
    everywhere = {option.name for family in families for option in family.options}
    for family in families:
        here = {option.name for option in family.options}
        task = {k: v for k, v in settings["task"].items() if k in here or k not in everywhere}
        axes: dict[str, Any] = {"arch": family.name, **task, "setting": family.settings[0], **shared}
        parts = [grid(variant=name, **its) for (of, name), its in own.items() if of == family.name]
        yield grid(**axes) * sum(parts, Grid([]))


def _variants(given: flags.FlagValues, families: Sequence[Family]) -> dict[str, list[str]]:
    """Family -> those of --variant that it knows, each once; all of its own by default."""
    if given.variant is None:
        return {family.name: default_variants(family) for family in families}
    for name in given.variant:
        check_choice("--variant", name, dict.fromkeys(n for family in families for n in _known(family)))
    chosen = dict.fromkeys(given.variant)
    return {family.name: [name for name in chosen if name in _known(family)] for family in families}


def _known(family: Family) -> list[str]:
    """The family's variants, then routers, each of which is one, too."""
    return list(dict.fromkeys([*(variant.name for variant in family.variants), *ROUTERS]))


def _shared_axes(given: flags.FlagValues) -> dict[str, list[Any]]:
    """What all flags but --arch, --variant, --model and --set say."""
    axes: dict[str, list[Any]] = {}
    for name, (path, least) in NUMBERS.items():
        if given[name].value is not None:
            axes[path] = [check_integer(f"--{name}", value, least) for value in _whole(name, given)]
    for name, path in WORDS.items():
        if given[name].value is not None:
            axes[path] = _listed(given[name].value)
    rate = given.learning_rate
    if rate is not None:
        if not 0 < rate < 1:
            raise ValueError(f"--learning_rate={rate} must lie between 0 and 1.")
        axes["training.learning_rate"] = [rate]
    return axes


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _whole(name: str, given: flags.FlagValues) -> list[int]:
    """The whole numbers of a flag."""
    values = _listed(given[name].value)
    try:
        return [int(value) for value in values]
    except ValueError:
        listed = ",".join(values)
        raise ValueError(f"--{name}={listed}: expected whole numbers with commas between.") from None


def _define(
    values: flags.FlagValues,
    name: str,
    words: str,
    choices: Sequence[str] = (),
    several: bool = False,
    default: str | None = None,
) -> None:
    """Adds a flag: of a list, of one of some choices, or of a whole number."""
    if several:
        words += f" Some of {', '.join(choices)}." if choices else " Several, commas between."
        flags.DEFINE_list(name, None, words, flag_values=values)
    elif choices:
        flags.DEFINE_enum(name, default, choices, words, flag_values=values)
    else:
        flags.DEFINE_integer(name, None, words, flag_values=values)
