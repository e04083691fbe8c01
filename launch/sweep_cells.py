"""The cells that the flags of `launch/sweep.py` speak of."""

from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from modtf.cell import Cell
from modtf.checks import check_choice
from modtf.families import FAMILIES
from modtf.launch.settings import change_protocol, model_settings, router_settings, settings_given
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS, default_variants
from modtf.studies import Grid, grid

#: flags that take several values -> what they are of a cell
LISTS: dict[str, Callable[[Cell], Any]] = {
    "arch": lambda cell: cell.task.arch,
    "setting": lambda cell: cell.task.setting,
    "rules": lambda cell: cell.task.num_rules,
    "width": lambda cell: cell.width,
    "variant": lambda cell: cell.variant,
}
OTHERS = ("model", "preset", "tasks", "seeds", "steps", "learning_rate", "batch_size")


def choose_cells(cells: Sequence[Cell], given: flags.FlagValues) -> list[Cell]:
    """Those of a study's cells that agree with the flags.

    Raises:
        ValueError: if none does, or a flag is given that would change the cells.
    """
    changed = [name for name in OTHERS if given[name].value is not None]
    changed += ["set"] if given["set"].value else []
    changed += [f"{name}" for name, value in settings_given(given)["task"].items() if value is not None]
    if changed:
        raise ValueError(
            f"--{changed[0]} cannot be given with --study, whose file says it. Copy and change the file, or "
            "leave --study out."
        )
    for name, value_of in LISTS.items():
        wanted = _values(given, name)
        if wanted is not None:
            present = list(dict.fromkeys(value_of(cell) for cell in cells))
            for value in wanted:
                check_choice(f"--{name}", value, present)
            cells = [cell for cell in cells if value_of(cell) in wanted]
    return list(cells)


def cells_of_flags(given: flags.FlagValues) -> list[Cell]:
    """All combinations of what the flags list.

    An option goes to the families, architectures and variants that know it.

    Raises:
        ValueError: on values that have no meaning.
    """
    archs = _values(given, "arch")
    if not archs:
        raise ValueError("Give --study=NAME, or say at least --arch=..., such as --arch=mlp,mha --rules=2,8.")
    for arch in archs:
        check_choice("--arch", arch, FAMILIES)
    settings = settings_given(given)
    known = {option.name for arch in archs for option in FAMILIES[arch].options}
    for name in settings["task"]:
        check_choice("task option", name, known)
    return [cell for arch in archs for cell in _of_family(arch, given, settings)]


def _of_family(arch: str, given: flags.FlagValues, settings: Any) -> list[Cell]:
    family = FAMILIES[arch]
    axes: dict[str, Any] = {"arch": arch}
    own = {option.name for option in family.options}
    axes |= {name: _split(value) for name, value in settings["task"].items() if name in own}
    axes["setting"] = _values(given, "setting") or next(iter(family.settings))
    names = {"rules": "num_rules", "width": "width"}
    axes |= {new: values for old, new in names.items() if (values := _values(given, old))}
    fields = {"steps": "training.steps", "batch_size": "training.batch_size"}
    fields |= {"learning_rate": "training.learning_rate", "tasks": "tasks", "seeds": "seeds"}
    axes |= {new: given[old].value for old, new in fields.items() if given[old].value is not None}
    variants = _values(given, "variant")
    variants = default_variants() if variants is None else variants
    if not variants and not given.model:
        raise ValueError(f"--variant is empty; expected some of {', '.join(ROUTERS)}.")
    for variant in variants:
        check_choice("--variant", variant, ROUTERS)
    router = router_settings(settings, variants)
    by_variant = (
        grid(variant=variant, **{f"router.{name}": _choices(v) for name, v in router[variant].items()})
        for variant in variants
    )
    models = given.model or []
    for name in models:
        check_choice("--model", name, MODELS)
    model, of_models = model_settings(settings, family.architecture if variants else None, models)
    shared = grid(preset=given.preset or "quick", **axes, protocol=_protocol(given, settings))
    of_own = (grid(variant=name, **_model_axes(of_models[name])) for name in models)
    routed = sum(by_variant, Grid([])) * grid(**_model_axes(model))
    return (shared * (routed + sum(of_own, Grid([])))).cells()


def _model_axes(options: dict[str, Any]) -> dict[str, Any]:
    return {f"model.{name}": _choices(value) for name, value in options.items()}


def _protocol(given: flags.FlagValues, settings: Any) -> Callable[[Any], Any]:
    """The preset's protocol with what --set says of it."""
    from modtf.protocol import preset

    return lambda task: change_protocol(preset(given.preset or "quick", task).protocol, settings, task.family)


def _values(given: flags.FlagValues, name: str) -> list[Any] | None:
    """What a flag lists, numbers as numbers; None if it is not given."""
    values = given[name].value
    if values is None or name not in ("rules", "width"):
        return values
    try:
        return [int(value) for value in values]
    except ValueError:
        raise ValueError(
            f"--{name}={','.join(values)}: expected whole numbers with commas between."
        ) from None


def _split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) and "," in value else value


def _choices(value: Any) -> Any:
    """`--set router.modules=8,16` is a choice."""
    return list(value) if isinstance(value, tuple) else _split(value)
