"""The algebra of grids: products, chains and filters of settings, which become cells."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

from modtf.base.checks import check_choice, check_integer
from modtf.base.registry import options_of, options_of_function, resolve
from modtf.base.words import in_a_row, plural
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.sizes import check_size, check_width
from modtf.models.own import MODELS, check_cell_of_model, options_of_model
from modtf.models.routers import ROUTERS
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, Family
from modtf.tasks.family import ROUTER
from modtf.tasks.memory import check_members
from modtf.tasks.protocol import MOST, Evaluation, Protocol, Training, preset
from modtf.tasks.task import FIELDS, Task, science_hash

#: names in a point besides its task and options
CELL_FIELDS = ("width", "variant", "architecture", "preset", "protocol", "tasks", "seeds", "members")
OPTIONS = ("router", "model", "trainer")  # namespaces of options, each a field of `Cell`
#: the namespaces of a protocol -> its fields
PARTS = {"training": Training.__dataclass_fields__, "evaluation": Evaluation.__dataclass_fields__}
NAMESPACES = (*OPTIONS, *PARTS)
SHOWN = 5  # cells that cannot run


def options_known(
    namespace: str, family: Family, variant: str, architecture: str | None = None
) -> dict[str, Any]:
    """Return the options, with defaults, that a cell of a variant takes as `NAMESPACE.NAME`.

    The namespace is one of `OPTIONS`. The variant is one of the family's, or a registered router or model.
    """
    chosen = family.variant(variant)
    own, fixed = chosen.router in MODELS, chosen.model or {}
    if namespace == "trainer":
        return options_of_function(resolve(chosen.trainer), 1)
    if namespace == "router":
        known = {} if own else options_of(ROUTERS[str(chosen.router)], "__init__", skip=2)
        return {name: default for name, default in known.items() if ROUTER + name not in fixed}
    if own:
        known = options_of_model(str(chosen.router))
    else:
        known = options_of(ARCHITECTURES[family.network(variant, architecture)], "make_layers")
    return {name: default for name, default in known.items() if name not in fixed}


def share_options(
    by_namespace: Mapping[str, Mapping[str, Any]],
    owners: Iterable[tuple[Family, str]],
    architecture: str | None = None,
) -> tuple[dict[tuple[str, str], dict[str, dict[str, Any]]], dict[str, dict[str, Any]]]:
    """Give each option to the variants that know it.

    Args:
        by_namespace: namespace, one of `OPTIONS` -> option -> its value or values.
        owners: the variants, each with its family.
        architecture: replaces the families' own.

    Returns:
        (family, variant) -> namespace -> those of the options that it knows; and namespace -> all options
        that any of the variants knows, with their defaults.
    """
    own: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    known: dict[str, dict[str, Any]] = {namespace: {} for namespace in by_namespace}
    for family, variant in owners:
        shares = own.setdefault((family.name, variant), {})
        for namespace, options in by_namespace.items():
            defaults = options_known(namespace, family, variant, architecture)
            known[namespace] |= defaults
            shares[namespace] = {name: value for name, value in options.items() if name in defaults}
    return own, known


def without_effect(cells: Sequence[Cell]) -> list[str]:
    """Return a line for each option that cells give, but that none of them uses.

    The attribute `needs` of an architecture or trainer says which option another needs to have an effect.
    """
    lines = []
    for namespace in ("model", "trainer"):
        for name in dict.fromkeys(name for cell in cells for name in getattr(cell, namespace)):
            needed = [_needed(cell, namespace, name) for cell in cells if name in getattr(cell, namespace)]
            if all(needed):
                lines.append(
                    f"{namespace}.{name} has no effect without {namespace}.{needed[0]}, which no variant of "
                    "this command has. Leave it out."
                )
    return lines


def _needed(cell: Cell, namespace: str, name: str) -> str:
    """Return the option without which another of a cell has no effect; "" if the cell has it."""
    variant, family = cell.task.family.variant(cell.variant), cell.task.family
    if namespace == "trainer":
        part = resolve(variant.trainer)
    else:
        part = None if cell.runs in MODELS else ARCHITECTURES[cell.network]
    needed = str(getattr(part, "needs", {}).get(name, ""))
    options = {**options_known(namespace, family, cell.variant, cell.architecture), **(variant.model or {})}
    value = {**options, **getattr(cell, namespace)}.get(needed)
    return needed if value in (False, "none") else ""


def cell_of(point: Mapping[str, Any]) -> Cell:
    """Return the cell that a point describes.

    Args:
        point: any of
            `arch`, `setting`, `num_rules`, and the family's own options;
            `width`, `variant`, `architecture`;
            `preset`, "paper" (default) or "quick", which sets everything else that is not given;
            `protocol`, a `Protocol` or a function from `Task` to `Protocol`;
            `tasks` and `seeds`, a number n for 0..n-1 or a tuple of numbers, or `members`, a tuple of
            (data_seed, seed);
            `router.NAME`, `model.NAME`, `trainer.NAME`: options of router, architecture and trainer;
            `training.NAME`, `evaluation.NAME`: fields of the protocol.

    Raises:
        ValueError: if a setting is unknown or invalid.

    Example:
        >>> cell_of({"arch": "mlp", "num_rules": 4, "width": 32, "variant": "modular"}).label
        'mlp_regression_r4_e32_modular'
    """
    by_namespace: dict[str, dict[str, Any]] = {namespace: {} for namespace in NAMESPACES}
    plain: dict[str, Any] = {}
    options = {option.name for family in FAMILIES.values() for option in family.options}
    for path, value in point.items():
        namespace, dot, name = path.partition(".")
        if dot:
            check_choice(f"namespace of {path}", namespace, NAMESPACES)
            by_namespace[namespace][name] = value
        else:
            check_choice("setting", path, (*FIELDS[:-1], *sorted(options), *CELL_FIELDS))
            plain[path] = value
    task = Task(**{name: value for name, value in plain.items() if name not in CELL_FIELDS})
    name, variant = plain.get("preset", "paper"), plain.get("variant", "modular")
    defaults = preset(name, task)
    if "num_rules" not in plain:
        task = task.replace(num_rules=defaults.num_rules)
    if "members" in plain and (beside := [name for name in ("tasks", "seeds") if name in plain]):
        raise ValueError(f"members names every task and seed, so {in_a_row(beside)} cannot stand beside it.")
    tasks = _numbers("tasks", plain.get("tasks", defaults.tasks))
    seeds = _numbers("seeds", plain.get("seeds", defaults.seeds))
    protocol = Protocol.published(task, variant) if name == "paper" else defaults.protocol
    check_members(len(tasks) * len(seeds), f"tasks={len(tasks)} seeds={len(seeds)}")
    return Cell(
        task,
        plain.get("width", defaults.width),
        variant,
        plain["members"] if "members" in plain else tuple(product(tasks, seeds)),
        _protocol(task, plain.get("protocol", protocol), by_namespace),
        architecture=plain.get("architecture"),
        **{name: by_namespace[name] for name in OPTIONS},
    )


def _protocol(task: Task, named: Any, changes: Mapping[str, Mapping[str, Any]]) -> Protocol:
    """Return a point's protocol, with the fields that it changes."""
    named = named(task) if callable(named) else named
    if not isinstance(named, Protocol):
        raise ValueError(
            f"protocol={named!r} is not valid; expected a modtf.Protocol or a function that returns one."
        )
    for part, known in PARTS.items():
        for name in changes[part]:
            check_choice(f"{part} field", name, known)
    parts = {part: replace(getattr(named, part), **changes[part]) for part in PARTS}
    for name in changes["evaluation"].get("conditions") or ():
        task.condition(name)
    return Protocol(**parts)


def _numbers(name: str, value: Any) -> Sequence[int]:
    if isinstance(value, tuple):
        return tuple(check_integer(name, one, 0) for one in value)
    return range(check_integer(name, value, 1, MOST))


def check_cells(cells: Sequence[Cell]) -> None:
    """Raise `ValueError` for cells that cannot be built, and for duplicates. This imports no TensorFlow.

    Options of routers and architectures are checked only when a cell is built.
    """
    if not cells:
        raise ValueError("The study has no cells. Relax its filters or choices.")
    _refuse(cells, check_cell, "{label}: {error}")
    seen: dict[str, Cell] = {}
    for cell in cells:
        if seen.setdefault(science_hash(cell.to_dict()), cell) is not cell:
            raise ValueError(f"The study holds the cell {cell.label} twice. Leave one of them out.")


def check_cell(cell: Cell) -> None:
    """Raise `ValueError` for a cell that cannot be built. This imports no TensorFlow."""
    cell.task.family.check_variant(cell.task, cell.variant)
    if cell.runs in MODELS:
        check_cell_of_model(cell)
        return
    if cell.runs not in ROUTERS:
        names = [variant.name for variant in cell.task.family.variants]
        check_choice("variant", cell.variant, dict.fromkeys([*names, *ROUTERS, *MODELS]))
    check_choice("architecture", cell.network, ARCHITECTURES)
    if cell.network == cell.task.family.architecture:
        _, options = cell.task.family.variant(cell.variant).options(cell.router, cell.model)
        cell.task.family.check_model(cell.task, options)
    check_width(cell.network, cell.width, cell.task.num_rules, cell.router.get("modules"))


def check_memory(cells: Sequence[Cell]) -> None:
    """Raise `ValueError` for cells that cannot fit into the memory of this machine."""
    _refuse(cells, check_size, "{error}")


def _refuse(cells: Sequence[Cell], check: Callable[[Cell], None], words: str) -> None:
    reasons = []
    for cell in cells:
        try:
            check(cell)
        except ValueError as error:
            reasons.append(words.format(label=cell.label, error=error))
    if reasons:
        lines = [f"  {reason}" for reason in reasons[:SHOWN]]
        more = [f"  and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
        raise ValueError(
            "\n".join([f"{len(reasons)} of {plural(len(cells), 'cell')} cannot run:", *lines, *more])
        )


Point = Mapping[str, Any]
T = TypeVar("T")


class Grid:
    """An ordered list of points, each a set of named settings; `grid` and `together` make them.

    `a * b` joins every point of a with every point of b, `a + b` is a followed by b, `where` filters, and
    `cells` turns the points into cells. `modtf.studies.grid.cell_of` lists the possible settings of a point.

    Example:
        >>> kinds = grid(arch="mlp") + grid(arch="mha", search=["v1", "v2"])
        >>> small = kinds * grid(num_rules=[2, 4], width=32, variant=["monolithic", "modular"])
        >>> len(small), small.cells()[0].label
        (12, 'mlp_regression_r2_e32_monolithic')
    """

    def __init__(self, points: "list[Point] | tuple[Point, ...]"):
        self.points = tuple(points)

    def __mul__(self, other: "Grid") -> "Grid":
        """Join every point of this grid with every point of the other, which varies faster. Raise
        `ValueError` if both set the same name."""
        axes, other_axes = (set().union(*one.points) for one in (self, other))
        if twice := ", ".join(sorted(axes & other_axes)):
            raise ValueError(f"Both factors of a product of grids set {twice}. Set it in only one of them.")
        return Grid([{**a, **b} for a, b in product(self.points, other.points)])

    def __add__(self, other: "Grid") -> "Grid":
        """Return this grid's points, then the other's."""
        return Grid([*self.points, *other.points])

    def where(self, keep: Callable[[Point], bool]) -> "Grid":
        """Return the points for which `keep` is true: `where(lambda point: point["width"] >= 64)`."""
        return Grid([point for point in self.points if keep(point)])

    def cells(self) -> list[Cell]:
        """Return one cell per point. Raise `ValueError` for an unknown or invalid setting, with its point."""
        return [_named(point) for point in self.points]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __repr__(self) -> str:
        return f"Grid of {len(self)} points"


def grid(**axes: Any) -> Grid:
    """Return all combinations; the last axis varies fastest.

    Args:
        **axes: a list or range is a choice; anything else (a tuple, too) is one value. Names with a dot are
            written as `**{"router.temperature": [1, 2]}`.

    Example:
        >>> [dict(point) for point in grid(arch="mlp", width=[32, 64])]
        [{'arch': 'mlp', 'width': 32}, {'arch': 'mlp', 'width': 64}]
    """
    return Grid([dict(zip(axes, values, strict=True)) for values in product(*map(_choices, axes.values()))])


def together(**axes: Any) -> Grid:
    """Return axes that vary together: the first values of all, the second values of all, and so on.

    Raises:
        ValueError: if they do not have equally many values.

    Example:
        >>> [dict(point) for point in together(num_rules=[2, 32], width=[32, 512])]
        [{'num_rules': 2, 'width': 32}, {'num_rules': 32, 'width': 512}]
    """
    choices = [_choices(values) for values in axes.values()]
    lengths = dict(zip(axes, map(len, choices), strict=True))
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Axes that vary together must have as many values each, received {lengths}.")
    return Grid([dict(zip(axes, row, strict=True)) for row in zip(*choices, strict=True)])


def shard_of(items: Sequence[T], shard: str) -> list[T]:
    """Return every n-th item from the i-th, for `shard` "i/n" with i from 0 (otherwise `ValueError`). The
    jobs of an array use it. Small and large cells are spread evenly, and the jobs are independent."""
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not match or not int(match[1]) < int(match[2]):
        raise ValueError(
            f"--shard={shard} is not valid; expected i/n with i between 0 and n-1, for example 0/8, the "
            "first of 8."
        )
    return list(items[int(match[1]) :: int(match[2])])


def _named(point: Point) -> Cell:
    try:
        return cell_of(point)
    except (TypeError, ValueError) as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in point.items())
        raise ValueError(f"{error} (in the cell {shown})") from error


def _choices(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | range) else [values]
