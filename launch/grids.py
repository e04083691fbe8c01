"""Turns flags into points of a grid: every family, variant and registered model gets the options it knows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from modtf.base.checks import check_choice, check_integer
from modtf.launch.set_options import Settings, check_known
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS, default_variants
from modtf.studies.grid import Grid, grid
from modtf.studies.point import OPTIONS, PARTS, share_options
from modtf.tasks.families import Family

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
    return {
        family.name: [name for name in chosen if name in accepted_variants(family)] for family in families
    }


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
    values = listed(flag_values[name].value)
    try:
        return [int(value) for value in values]
    except ValueError:
        joined = ",".join(values)
        raise ValueError(f"--{name}={joined}: expected integers separated by commas.") from None
