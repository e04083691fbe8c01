"""A point of a grid becomes a cell."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from modtf.cell import Cell
from modtf.checks import check_choice, check_integer
from modtf.families import FAMILIES
from modtf.memory import check_members
from modtf.protocol import Evaluation, Protocol, Training, preset
from modtf.task import FIELDS, Task

MODEL_FIELDS = ("width", "variant", "architecture")
PROTOCOL_FIELDS = ("preset", "protocol", "tasks", "seeds", "members")
NAMESPACES = ("router", "model", "training", "evaluation")


def cell_of(point: Mapping[str, Any]) -> Cell:
    """The cell that a point describes.

    Args:
        point: any of
            `arch`, `setting`, `num_rules`, and the family's own options;
            `width`, `variant`, `architecture`;
            `preset`, "paper" (default) or "quick": where the rest comes from if not given;
            `protocol`, a `Protocol` or a function from `Task` to `Protocol`;
            `tasks` and `seeds`, a number n for 0..n-1 or a tuple of numbers, or `members`, a tuple of
            (data_seed, seed);
            `router.NAME`, `model.NAME`: options of router and architecture;
            `training.NAME`, `evaluation.NAME`: fields of the protocol.

    Raises:
        ValueError: on a setting that is not known or makes no sense.

    Example:
        >>> cell_of({"arch": "mlp", "num_rules": 4, "width": 32, "variant": "modular"}).label
        'mlp_regression_r4_e32_modular'
    """
    try:
        return _cell_of(point)
    except (TypeError, ValueError) as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in point.items())
        raise ValueError(f"{error} (in the cell {shown})") from error


def _cell_of(point: Mapping[str, Any]) -> Cell:
    options = _by_namespace(point)
    plain = {name: value for name, value in point.items() if "." not in name}
    known_options = {option.name for family in FAMILIES.values() for option in family.options}
    for name in plain:
        known = (*FIELDS[:-1], *sorted(known_options), *MODEL_FIELDS, *PROTOCOL_FIELDS)
        check_choice("setting", name, known)
    rest = (*MODEL_FIELDS, *PROTOCOL_FIELDS)
    task = Task(**{name: value for name, value in plain.items() if name not in rest})
    defaults = preset(plain.get("preset", "paper"), task)
    if "num_rules" not in plain:
        task = task.replace(num_rules=defaults.num_rules)
    protocol = plain.get("protocol", defaults.protocol)
    if callable(protocol):
        protocol = protocol(task)
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol={protocol!r}: expected a modtf.Protocol or a function that gives one.")
    tasks = _numbers("tasks", plain.get("tasks", defaults.tasks))
    seeds = _numbers("seeds", plain.get("seeds", defaults.seeds))
    check_members(len(tasks) * len(seeds), f"{len(tasks)} tasks x {len(seeds)} seeds")
    members = plain.get("members") or tuple((data_seed, seed) for data_seed in tasks for seed in seeds)
    return Cell(
        task,
        plain.get("width", defaults.width),
        plain.get("variant", "modular"),
        members,
        Protocol(
            replace(protocol.training, **options["training"]),
            replace(protocol.evaluation, **options["evaluation"]),
        ),
        options["router"],
        options["model"],
        plain.get("architecture"),
    )


def _by_namespace(point: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {namespace: {} for namespace in NAMESPACES}
    known = {"training": fields(Training), "evaluation": fields(Evaluation)}
    for path, value in point.items():
        namespace, dot, name = path.partition(".")
        if dot:
            check_choice(f"namespace of {path}", namespace, NAMESPACES)
            if namespace in known:
                check_choice(f"{namespace} field", name, [field.name for field in known[namespace]])
            found[namespace][name] = value
    return found


def _numbers(name: str, value: Any) -> Sequence[int]:
    if isinstance(value, tuple):
        return tuple(check_integer(name, one, 0) for one in value)
    return range(check_integer(name, value, 1))
