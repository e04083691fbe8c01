"""Requests to measure, from the flags of `launch/bench.py` or from the table of a device.

A request is a cell with its options, and the variants that are measured together. It is JSON, because another
process measures it.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import flags

from modtf.base.checks import check_choice, check_integer
from modtf.base.plugins import load_plugin
from modtf.launch.set_options import Settings, check_known, settings_given
from modtf.models.architectures.sizes import check_size
from modtf.models.routers import ROUTERS, default_variants
from modtf.studies.grid import grid
from modtf.studies.point import cell_of, check_cell, share_options
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, with_free_rules
from modtf.tasks.memory import check_members
from modtf.tasks.protocol import KERNELS, PLACES, PRECISIONS

Request = Mapping[str, Any]
Row = dict[str, Any]

BACKENDS = ("tensorflow", "jax")
DEVICES = ("gpu", "cpu")
MEMORY = "memory"  # where the batches of the table of CPU time lie; those of a device: `PLACES`
NUMBERS = {"rules": 2, "width": 1, "members": 1}  # flag of numbers -> the least
NAMED: Mapping[str, Sequence[str]] = {"precision": PRECISIONS, "data": PLACES[1:], "kernels": KERNELS}
WHOLE = {"arch": "arch", "rules": "num_rules", "width": "width"}  # what --all says
#: flag -> axis of a table
AXES = {**WHOLE, "variant": "variants", "members": "members", **{name: name for name in NAMED}}
OPTIONS = ("task", "router", "model")  # namespaces of --set that a request has
CORE_FLAGS = ("all", "baseline", "evaluation")  # that only the table of CPU time has
DEVICE_FLAGS = ("minutes", "dry_run", *NAMED, "profile", "released")  # that it has not

TASKS = 5  # of a published cell; each with as many seeds
PUBLISHED_MEMBERS = TASKS * TASKS
PROFILED = 2  # programs in a trace
GUESS = 30.0  # seconds of a cell: starting, compiling, measuring; until some were measured

OWN, OTHER = "own", "other"  # kernels, before a device is known
Table = Sequence[Mapping[str, Sequence[Any]]]  # of parts: all combinations of each, for all families
#: what parts of the table do not say
PLAIN: Mapping[str, Sequence[Any]] = {
    "num_rules": [8],
    "width": [32, 128],
    "members": [PUBLISHED_MEMBERS],
    "precision": ["float32"],
    "data": ["device"],
    "kernels": [OWN],
    "variants": [["modular"]],  # the dearest
}
#: of a device; of most worth first
DEVICE_TABLE: Table = (
    {"precision": PRECISIONS},
    {"members": [1, 5, 100]},
    {"width": [512], "precision": PRECISIONS},
    {"kernels": [OTHER]},
    {"members": [1, 25], "data": ["host"]},
    {"num_rules": [32], "width": [32], "members": [1, 25, 100]},
    {"members": [100], "precision": PRECISIONS[1:]},
)
#: of CPU time
CORE_TABLE: Table = (
    {"num_rules": [2, 8, 32], "members": [1], "data": [MEMORY], "variants": [default_variants()]},
)
#: what tells one measurement from another
KEY = ("arch", "num_rules", "width", "variant", "members", "precision", "data", "kernels", "backend",
       "task", "router", "model", "xla_flags")  # fmt: skip


def combinations(table: Table, device: str, chosen: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the combinations of a table, each once, families varying fastest.

    `chosen` replaces axes of every part.
    """
    own, other = KERNELS if device == "cpu" else reversed(KERNELS)
    names = {OWN: own, OTHER: other}
    unique: dict[str, dict[str, Any]] = {}
    for part in table:
        axes = {**PLAIN, "arch": list(with_free_rules()), **part, **chosen}
        for point in grid(**{axis: list(values) for axis, values in axes.items()}):
            cell = {**point, "kernels": names.get(point["kernels"], point["kernels"])}
            unique.setdefault(json.dumps(cell), cell)
    return list(unique.values())


def requests_of_flags(values: flags.FlagValues) -> list[dict[str, Any]]:
    """Return the requests of the flags: on a device one per cell; in CPU time one per (architecture, R, e),
    whose variants take turns. Raise `ValueError` on meaningless values before anything runs.
    """
    _check_flags(values)
    on_device, chosen, settings = values.device is not None, _axes(values), settings_given(values)
    for namespace in ("training", "evaluation", "trainer"):  # the protocol is the published one
        check_known(namespace, settings[namespace], [], "a benchmark, which uses the published protocol")
    asked = combinations(DEVICE_TABLE if on_device else CORE_TABLE, values.device or "cpu", chosen)
    if not on_device:  # family by family
        archs = [cell["arch"] for cell in asked]
        asked.sort(key=lambda cell: archs.index(cell["arch"]))
    return [_request(cell, settings, values.backend) for cell in asked]


def _axes(values: flags.FlagValues) -> dict[str, list[Any]]:
    """Return the values of the axes that flags name; in CPU time defaults count, too."""
    counted = {flag: axis for flag, axis in AXES.items() if not (values.all and flag in WHOLE)}
    named = [
        flag
        for flag in counted
        if (values[flag].present if values.device else values[flag].value is not None)
    ]
    chosen = {counted[flag]: _values(values, flag) for flag in named}
    if values.evaluation:
        chosen.setdefault("members", [PUBLISHED_MEMBERS])
    if not values.device and len(chosen.get("members", [1])) > 1:
        raise ValueError(
            f"--members={','.join(values.members)}: expected one number. Give --device to measure several."
        )
    return chosen


def _check_flags(values: flags.FlagValues) -> None:
    """Raise `ValueError` if a flag belongs to the other table, or asks for something impossible."""
    wrong = [name for name in (CORE_FLAGS if values.device else DEVICE_FLAGS) if values[name].present]
    if wrong and values.device:
        raise ValueError(f"--{wrong[0]} applies to CPU time only. Leave out --{wrong[0]} or --device.")
    if wrong:
        raise ValueError(f"--{wrong[0]} needs --device, one of {', '.join(DEVICES)}.")
    if values.all and (given := [flag for flag in WHOLE if values[flag].present]):
        raise ValueError(f"--all measures every value of --{given[0]}. Leave out --{given[0]}, or --all.")
    if values.backend != "tensorflow" and values.evaluation:
        raise ValueError(f"--evaluation needs TensorFlow. Leave out --backend={values.backend}.")


def _values(flag_values: flags.FlagValues, flag: str) -> list[Any]:
    """Return the values of a flag's list, as values of its axis."""
    values = flag_values[flag].value
    if not values:
        raise ValueError(f"--{flag} is empty; expected values separated by commas.")
    if flag in NUMBERS:
        try:
            numbers = [int(value) for value in values]
        except ValueError:
            raise ValueError(f"--{flag}={','.join(values)}: expected integers separated by commas.") from None
        return [check_integer(f"--{flag}", number, NUMBERS[flag]) for number in numbers]
    variants = [*ROUTERS, *(each.name for family in FAMILIES.values() for each in family.variants)]
    known = {"arch": FAMILIES, "variant": dict.fromkeys(variants), **NAMED}[flag]
    for value in values:
        check_choice(f"--{flag}", value, known)
    if flag != "variant":
        return values
    in_order = [name for name in known if name in values]
    return [[name] for name in in_order] if flag_values.device else [in_order]


def how_measured(values: flags.FlagValues) -> dict[str, Any]:
    """Return the settings that all requests share, for the process that measures them."""
    shared = ("backend", "repeats", "seconds", "baseline", "evaluation", "profile")
    return {
        **{name: getattr(values, name) for name in shared},
        "clock": "wall" if values.device else "cpu",
        "device": values.device or "cpu",
        "plugins": [load_plugin(location) for location in values.plugin],  # as any process finds them
    }


def _request(cell: Mapping[str, Any], settings: Settings, backend: str) -> dict[str, Any]:
    """Return a combination with everything that its process must know; raise `ValueError` if it cannot be
    built or fit."""
    variants, members = cell["variants"], cell["members"]
    check_members(members, f"--members={members}")
    options = {part: {name: value for name, (value,) in settings[part].items()} for part in OPTIONS}
    family = FAMILIES[cell["arch"]]
    whose = {"router": " and ".join(variants), "model": f"the architecture {family.architecture!r}"}
    own, known = share_options({part: options[part] for part in whose}, [(family, name) for name in variants])
    for part, owners in whose.items():
        check_known(part, options[part], known[part], owners)
        options[part] = {name: own[family.name, name][part] for name in variants}
    options["model"] = options["model"][variants[0]]  # one architecture's
    request = {**cell, **options, "backend": backend, "xla_flags": os.environ.get("XLA_FLAGS", "")}
    for row in cells_of(request):
        built = cell_of_row(row)
        check_cell(built)
        check_size(built)
    return request


def cell_of_row(row: Request) -> Cell:
    """Return the cell of a row: data seeds vary faster than seeds."""
    options = {"router": row["router"][row["variant"]], "model": row["model"]}
    return cell_of(
        {
            **{name: row[name] for name in ("arch", "num_rules", "width", "variant")},
            **row["task"],
            **{f"{part}.{name}": value for part, own in options.items() for name, value in own.items()},
            "members": tuple((i % TASKS, i // TASKS) for i in range(row["members"])),
            "training.precision": row["precision"],
        }
    )


def cells_of(request: Request) -> list[Row]:
    """Return the description of what was measured, for the rows of a request."""
    shared = {name: value for name, value in request.items() if name not in ("variants", "router")}
    return [
        {**shared, "variant": variant, "router": {variant: request["router"][variant]}}
        for variant in request["variants"]
    ]


def key_of(row: Request) -> str:
    """Return the key of a row."""
    return json.dumps([row.get(name) for name in KEY], sort_keys=True)


def label_of(row: Request) -> str:
    """Return the label of a row: "mlp_r8_e32_modular_p25_tf32_device_accelerator_jax"."""
    size = "{arch}_r{num_rules}_e{width}_{variant}_p{members}".format_map(row)
    return f"{size}_{row['precision']}_{row['data']}_{row['kernels']}_{row['backend']}"


def expected_seconds(request: Request, rows: Iterable[Request] = ()) -> float:
    """Return the expected seconds of a request.

    They are the mean over measured requests of its architecture, or a guess if there are none.
    """
    known = [row["wall_s"] for row in rows if row["arch"] == request["arch"] and "wall_s" in row]
    return sum(known) / len(known) if known else GUESS
