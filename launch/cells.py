"""Turns flags into points of a grid, and the points into cells.

`launch/run.py` and `launch/tune.py` take one task type of one size. `launch/sweep.py` takes lists, which are
combined. Sweeps and tuning can name a study instead.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from modtf.base.checks import check_choice, check_integer
from modtf.launch.set_options import Settings, check_known, settings_given
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS, default_variants
from modtf.studies.grid import (
    OPTIONS,
    PARTS,
    Grid,
    Point,
    cell_of,
    check_cell,
    check_cells,
    grid,
    share_options,
    without_effect,
)
from modtf.studies.load import STUDIES, load_study
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, Family
from modtf.tasks.protocol import PRECISIONS, PRESETS, preset
from modtf.training.arithmetic import warn_of_few_evaluations

#: flag of a number -> its axis of a point, and its smallest valid value
NUMBERS = {
    "rules": ("num_rules", 2),
    "width": ("width", 1),
    "tasks": ("tasks", 1),
    "seeds": ("seeds", 1),
    "steps": ("training.steps", 1),
    "batch_size": ("training.batch_size", 1),
}
#: flag of a word -> its axis of a point
WORDS = {"preset": "preset", "setting": "setting", "architecture": "architecture"}
WORDS |= {"precision": "training.precision"}


def grids(values: flags.FlagValues, families: Sequence[Family], settings: Settings) -> Iterator[Grid]:
    """Yield the points of every family; options of --set go to the variants that know them."""
    models, variants = _models(values), _variants(values, families)
    if not models and not any(variants.values()):
        raise ValueError(
            f"--variant is empty; expected one or more of {', '.join(accepted_variants(families[0]))}."
        )
    for family in families:
        if not models and not variants[family.name]:
            raise ValueError(
                f"--variant={','.join(values.variant)}: {family.name} has none of these variants. Leave "
                f"--arch={family.name} out, or add one of {', '.join(accepted_variants(family))}."
            )
    own = _own_options(values, families, variants, models, settings)
    of_flags, of_protocol = _shared_axes(values), _paths({part: settings[part] for part in PARTS})
    for path in of_flags.keys() & of_protocol.keys():
        flag = path.rpartition(".")[2]
        raise ValueError(f"--{flag} and --set {path} cannot both be given. Leave one out.")
    shared = of_flags | of_protocol
    for family in families:
        axes = {"arch": family.name, **_task_axes(family, families, settings), **shared}
        parts = [grid(variant=name, **_paths(some)) for (of, name), some in own.items() if of == family.name]
        yield grid(**axes) * sum(parts, Grid([]))


def _paths(options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return options by their paths, NAMESPACE.NAME."""
    return {f"{namespace}.{k}": v for namespace, some in options.items() for k, v in some.items()}


def _own_options(
    values: flags.FlagValues,
    families: Sequence[Family],
    variants: Mapping[str, Sequence[str]],
    models: Sequence[str],
    settings: Settings,
) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Return the options of each (family, variant); raise `ValueError` on one that no variant knows."""
    owners = [(family, name) for family in families for name in (*variants[family.name], *models)]
    asked = {namespace: settings[namespace] for namespace in OPTIONS if settings[namespace]}
    own, known = share_options(asked, owners, values.architecture)
    networks = [f.network(name, values.architecture) for f in families for name in variants[f.name]]
    of_models = [*(f"the architecture {name!r}" for name in networks), *map(repr, models)]
    for namespace in asked:
        names = of_models if namespace == "model" else [name for _, name in owners]
        check_known(namespace, asked[namespace], known[namespace], " and ".join(dict.fromkeys(names)))
    return own


def _models(values: flags.FlagValues) -> list[str]:
    """Return the registered models of --model, without duplicates."""
    models = list(dict.fromkeys(values.model if "model" in values else []))
    for name in models:
        if name not in MODELS:
            raise ValueError(
                f"--model={name!r} is not known; registered: {', '.join(MODELS) or 'none'}. Register it "
                "with @modtf.register_model in a file, and give --plugin=FILE."
            )
    return models


def _task_axes(family: Family, families: Sequence[Family], settings: Settings) -> dict[str, Any]:
    """Return a family's first setting and its options of tasks; options of other families are left out."""
    known = {option.name for option in family.options}
    foreign = {option.name for other in families for option in other.options} - known
    return {**{k: v for k, v in settings["task"].items() if k not in foreign}, "setting": family.settings[0]}


def _variants(values: flags.FlagValues, families: Sequence[Family]) -> dict[str, list[str]]:
    """Return family -> variants of --variant that it knows, without duplicates; by default all its own."""
    if values.variant is None:
        return {family.name: default_variants(family) for family in families}
    known = dict.fromkeys(name for family in families for name in accepted_variants(family))
    for name in values.variant:
        check_choice("--variant", name, known)
    chosen = dict.fromkeys(values.variant)
    return {one.name: [name for name in chosen if name in accepted_variants(one)] for one in families}


def accepted_variants(family: Family) -> list[str]:
    """Return a family's variants, then the routers, each of which is also a variant."""
    return list(dict.fromkeys([*(variant.name for variant in family.variants), *ROUTERS]))


def _shared_axes(values: flags.FlagValues) -> dict[str, list[Any]]:
    """Return the axes of all flags except --arch, --variant, --model and --set."""
    axes: dict[str, list[Any]] = {}
    for name, (path, least) in NUMBERS.items():
        if values[name].value is not None:
            axes[path] = [check_integer(f"--{name}", value, least) for value in whole_numbers(name, values)]
    for name, path in WORDS.items():
        if values[name].value is not None:
            axes[path] = listed(values[name].value)
    rate = values.learning_rate
    if rate is not None:
        if not 0 < rate < 1:
            raise ValueError(f"--learning_rate={rate} is not valid; expected a number between 0 and 1.")
        axes["training.learning_rate"] = [rate]
    return axes


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def whole_numbers(name: str, flag_values: flags.FlagValues) -> list[int]:
    """Return the whole numbers of a flag."""
    texts = listed(flag_values[name].value)
    try:
        return list(map(int, texts))
    except ValueError:
        raise ValueError(f"--{name}={','.join(texts)}: expected integers separated by commas.") from None


#: flag that selects among a study's cells -> its value for a cell
CHOOSES: dict[str, Callable[[Cell], Any]] = {
    "arch": lambda cell: cell.task.arch,
    "setting": lambda cell: cell.task.setting,
    "rules": lambda cell: cell.task.num_rules,
    "width": lambda cell: cell.width,
    "variant": lambda cell: cell.variant,
}


def define_kind_flags(values: flags.FlagValues, several: bool = False) -> None:
    """Add --arch and --variant; with `several`, --arch takes a list and has no default."""
    words = "The family of tasks, and the network that learns them."
    _define(values, "arch", words, list(FAMILIES), several, next(iter(FAMILIES)))
    words = f"Variants, separated by commas. Those marked * are the default. {_variants_by_family()}"
    flags.DEFINE_list("variant", None, words, flag_values=values)


def _variants_by_family() -> str:
    """Return the variants, each under the families that have it, and the routers that all families accept."""
    families: dict[str, list[str]] = {}
    for family in FAMILIES.values():
        defaults = default_variants(family)
        names = (f"{v.name}{'*' * (v.name in defaults)}" for v in family.variants)
        families.setdefault(", ".join(names), []).append(family.name)
    own = {variant.name for family in FAMILIES.values() for variant in family.variants}
    routers = ", ".join(name for name in ROUTERS if name not in own)
    listed = (f"{', '.join(names)}: {variants}." for variants, names in families.items())
    return " ".join([*listed, f"All families: {routers}."])


def define_cell_flags(values: flags.FlagValues, out: str | None = None, several: bool = False) -> None:
    """Add the other flags of a cell. `out` is the help of --out; None if the command does not have it."""
    settings = dict.fromkeys(name for family in FAMILIES.values() for name in family.settings)
    words = "quick: a few minutes on two cores, with a shorter protocol than the paper's. paper: the "
    words += "published protocol, many hours. smoke: about a minute, to test the installation; its numbers "
    words += "mean nothing."
    _define(values, "preset", words, list(PRESETS), default="quick")
    if out is not None:
        flags.DEFINE_string("out", None, out, flag_values=values)
    words = "The number of rules R of the task. The default is the preset's."
    _define(values, "rules", words, several=several)
    _define(values, "width", "The width e of the encoders. The inner width is 4e.", several=several)
    _define(values, "tasks", "The number of tasks (data seeds 0, 1, ...).")
    _define(values, "seeds", "The number of seeds per task (0, 1, ...).")
    _define(values, "steps", "Training steps.")
    words = "What is predicted. The default is the family's first setting."
    _define(values, "setting", words, list(settings), several)
    words = "The learning rate; with a schedule, that of the first step."
    flags.DEFINE_float("learning_rate", None, words, flag_values=values)
    _define(values, "batch_size", "The number of examples per member and step.")
    words = "The precision of matrix products. tf32 and mixed_bfloat16 are faster and less precise."
    _define(values, "precision", words, PRECISIONS)
    _define(values, "architecture", "The network, if not the family's own.", list(ARCHITECTURES))


def define_models(values: flags.FlagValues) -> None:
    """Add --model."""
    words = "Your registered Keras models to train alongside the variants, separated by commas; see --plugin."
    flags.DEFINE_list("model", [], words, flag_values=values)


def define_study(values: flags.FlagValues) -> None:
    """Add --study."""
    words = f"A study: {', '.join(STUDIES)}, or a file: FILE.py with CELLS or cells(), or FILE.py:NAME with "
    words += f"a function NAME(). {', '.join(f'--{name}' for name in CHOOSES)} select among its cells."
    flags.DEFINE_string("study", None, words, flag_values=values)


def cells_of_flags(values: flags.FlagValues) -> list[Cell]:
    """Return the cells that the flags ask for, per task type: one per variant, then one per registered model.

    An option goes to the variants that know it. Raise `ValueError` on invalid values or combinations.
    """
    archs = listed(values.arch or [])
    if not archs:
        raise ValueError("Give --study=NAME or --arch=NAMES, for example --arch=mlp,mha --rules=2,8.")
    for arch in archs:
        check_choice("--arch", arch, FAMILIES)
    settings = settings_given(values, several=isinstance(values.arch, list))
    points = sum(grids(values, [FAMILIES[arch] for arch in dict.fromkeys(archs)], settings), Grid([]))
    cells = [cell_of(_sized(point)) for point in points]
    if isinstance(values.arch, list):
        check_cells(cells)
    else:
        for cell in cells:
            check_cell(cell)
    return cells


def _sized(point: Point) -> Point:
    """Return a point with smaller evaluations if its training is shorter than the preset's; the preset
    "paper" keeps the published evaluations."""
    name, steps = point["preset"], point.get("training.steps")
    if name == "paper" or not isinstance(steps, int) or steps < 1:  # `cell_of` rejects these steps
        return point
    return {**point, "protocol": lambda task: preset(name, task).shortened(steps)}


def cells_given(values: flags.FlagValues) -> tuple[str, list[Cell], list[str]]:
    """Return a name, the cells of --study or else of the flags, and the plug-ins that they need.

    Raise `ValueError` if no cell of a study matches the flags, or a flag would change its cells.
    """
    if values.study is None:
        return "sweep", cells_of_flags(values), list(values.plugin)
    study = load_study(values.study)
    plugins = [*values.plugin, *filter(None, [study.plugin])]
    return study.name, choose_cells(study.cells, values), plugins


def warn_without_effect(cells: Sequence[Cell], values: flags.FlagValues) -> None:
    """Warn about options of --set that no cell uses, and of numbers of steps that allow few evaluations.

    Studies are not checked: authors chose their cells.
    """
    if "study" not in values or values.study is None:
        for line in without_effect(cells):
            warnings.warn(line, stacklevel=2)
        for training in (cell.protocol.training for cell in cells):
            warn_of_few_evaluations(training.steps, training.evaluations, training.tail)


def choose_cells(cells: Sequence[Cell], values: flags.FlagValues) -> list[Cell]:
    """Return the cells of a study that match the flags; raise `ValueError` if none does, or a flag would
    change the cells."""
    others = [name for name in (*NUMBERS, *WORDS, "learning_rate", "model", "set") if name in values]
    changed = [name for name in others if name not in CHOOSES and values[name].present]
    changed += settings_given(values)["task"]
    if changed:
        raise ValueError(
            f"--{changed[0]} cannot be given with --study, because the study sets it. Change a copy of the "
            "study's file, or leave out --study."
        )
    for name, value_of in CHOOSES.items():
        if values[name].present:
            wanted = whole_numbers(name, values) if name in NUMBERS else listed(values[name].value)
            present = list(dict.fromkeys(value_of(cell) for cell in cells))
            for value in wanted:
                check_choice(f"--{name}", value, present)
            if not wanted:
                raise ValueError(
                    f"--{name} is empty; expected one or more of {', '.join(map(str, present))}."
                )
            cells = [cell for cell in cells if value_of(cell) in wanted]
    return list(cells)


def _define(
    values: flags.FlagValues,
    name: str,
    words: str,
    choices: Sequence[str] = (),
    several: bool = False,
    default: str | None = None,
) -> None:
    """Add a flag: a list, one of some choices, or a whole number."""
    if several:
        words += f" Several{' of ' * bool(choices)}{', '.join(choices)}, separated by commas."
        flags.DEFINE_list(name, None, words, flag_values=values)
    elif choices:
        flags.DEFINE_enum(name, default, choices, words, flag_values=values)
    else:
        flags.DEFINE_integer(name, None, words, flag_values=values)
