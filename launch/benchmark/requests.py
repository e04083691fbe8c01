"""What is measured: the flags of `launch/bench.py`, and the tables that they choose from, as requests.

A request is JSON-able, as it is handed to a process of its own: a cell with its options, and the variants of
it that are measured together.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from absl import flags

from modtf.cell import Cell
from modtf.checks import check_choice, check_integer
from modtf.engines.shard import shard_of
from modtf.families import FAMILIES
from modtf.family import Family
from modtf.launch.settings import Settings, check_names, settings_given
from modtf.memory import check_members
from modtf.models.architectures.sizes import least_parameters
from modtf.models.routers import ROUTERS, default_variants
from modtf.plugins import load_plugin
from modtf.protocol import KERNELS, PLACES, PRECISIONS
from modtf.studies.check import check_cell
from modtf.studies.point import options_known
from modtf.task import Task
from modtf.training.requirements import check_cell as check_fits

Request = Mapping[str, Any]
Row = dict[str, Any]

BACKENDS = ("tensorflow", "jax")
DEVICES = ("gpu", "cpu")
MEMORY = "memory"  # where the batches of the table of CPU time lie; those of a device: `PLACES`
NUMBERS = {"rules": 2, "width": 1, "members": 1}  # axis of numbers -> the least
NAMED: Mapping[str, Sequence[str]] = {"precision": PRECISIONS, "data": PLACES[1:], "kernels": KERNELS}
CORE_FLAGS = ("all", "baseline", "evaluation")  # that only the table of CPU time has
DEVICE_FLAGS = ("shard", "minutes", "dry_run", *NAMED, "profile", "released")  # that it has not

PUBLISHED_MEMBERS = 25  # of a cell: 5 tasks x 5 seeds
PROFILED = 2  # programs in a trace
GUESS = 15.0  # seconds of a cell: building, compiling, measuring; until some were measured
GUESS_PER_WEIGHT = 5e-8  # more, of all members: weights are drawn on the host


@dataclass(frozen=True)
class Part:
    """All combinations of some values; empty: all families, or all variants."""

    rules: tuple[int, ...] = (8,)
    width: tuple[int, ...] = (32, 128)
    members: tuple[int, ...] = (PUBLISHED_MEMBERS,)
    precision: tuple[str, ...] = ("float32",)
    data: tuple[str, ...] = ("device",)
    kernels: tuple[str, ...] = ("own",)  # the device's own; or "other"
    variant: tuple[str, ...] = ("modular",)  # the dearest
    arch: tuple[str, ...] = ()


#: of a device; of most worth first; flags of the same names replace what a part lists
DEVICE_TABLE = (
    Part(precision=PRECISIONS),
    Part(members=(1, 5, 100)),
    Part(width=(512,), precision=PRECISIONS),
    Part(kernels=("other",)),
    Part(members=(1, 25), data=("host",)),
    Part(rules=(32,), width=(32,), members=(1, 25, 100)),
    Part(members=(100,), precision=PRECISIONS[1:]),
)
#: of CPU time; --all
CORE_TABLE = (Part(rules=(2, 8, 32), members=(1,), data=(MEMORY,), variant=()),)

AXES = tuple(field.name for field in fields(Part))
#: what tells one measurement from another
KEY = ("arch", "num_rules", "width", "variant", "members", "precision", "data", "kernels", "backend",
       "task", "router", "model", "xla_flags")  # fmt: skip


def cells(table: Sequence[Part], device: str, given: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The cells of a table, each once.

    Args:
        device: one of `DEVICES`.
        given: axis -> values that replace those of every part.

    Example:
        >>> len(cells(DEVICE_TABLE, "gpu", {"members": [25], "width": [32]}))  # of three families
        18
    """
    own, other = KERNELS if device == "cpu" else reversed(KERNELS)
    default = {"arch": tuple(FAMILIES), "variant": tuple(default_variants())}
    found: dict[str, dict[str, Any]] = {}
    for part in table:
        values = [given.get(axis) or getattr(part, axis) or default[axis] for axis in AXES]
        for chosen in product(*values):
            cell = dict(zip(AXES, chosen, strict=True))
            cell["num_rules"] = cell.pop("rules")
            cell["kernels"] = {"own": own, "other": other}.get(cell["kernels"], cell["kernels"])
            found.setdefault(json.dumps(cell), cell)
    return list(found.values())


def requests_of_flags(given: flags.FlagValues) -> list[dict[str, Any]]:
    """What the flags ask for: on a device a request per cell, of this shard alone if there is one; in CPU
    time one per (architecture, R, e), whose variants take turns.

    Raises:
        ValueError: on values that have no meaning, before anything runs.
    """
    on_device = given.device is not None
    check_flags(given)
    axes = AXES if on_device else () if given.all else ("arch", "rules", "width", "variant")
    chosen = {axis: _values(given, axis) for axis in axes if given[axis].present or not on_device}
    settings = settings_given(given)
    for namespace in ("training", "evaluation", "trainer"):  # the protocol is the published one
        check_names(namespace, settings[namespace], [], "a benchmark, which is of the published protocol")
    if on_device:
        found = [[cell] for cell in cells(DEVICE_TABLE, given.device, chosen)]
    else:
        default = [str(PUBLISHED_MEMBERS if given.evaluation else 1)]
        chosen["members"] = _numbers("members", given.members or default)
        if len(chosen["members"]) > 1:
            raise ValueError(f"--members={','.join(given.members)}: several numbers need --device.")
        found = _groups(cells(CORE_TABLE, "cpu", chosen))
    requests = [_request(group, settings, given.backend) for group in found]
    return shard_requests(requests, given.shard)


def check_flags(given: flags.FlagValues) -> None:
    """Raises `ValueError` where a flag belongs to the other table, or says nothing that can be done."""
    wrong = [name for name in (CORE_FLAGS if given.device else DEVICE_FLAGS) if given[name].present]
    if wrong and given.device:
        raise ValueError(f"--{wrong[0]} belongs to the table of CPU time: leave it or --device out.")
    if wrong:
        raise ValueError(f"--{wrong[0]} needs --device, one of {', '.join(DEVICES)}.")
    if given.backend != "tensorflow" and given.evaluation:
        raise ValueError(f"--evaluation needs TensorFlow: leave --backend={given.backend} out.")
    if not 0 < given.minutes < float("inf"):
        raise ValueError(f"--minutes={given.minutes} must be a finite number above 0.")
    if not given.seconds > 0:
        raise ValueError(f"--seconds={given.seconds} must be above 0.")
    check_integer("--repeats", given.repeats, 1)


def how_measured(given: flags.FlagValues) -> dict[str, Any]:
    """What all requests share, for the process that measures them."""
    shared = ("backend", "repeats", "seconds", "baseline", "evaluation", "profile")
    return {
        **{name: getattr(given, name) for name in shared},
        "clock": "wall" if given.device else "cpu",
        "device": given.device or "cpu",
        "plugins": [load_plugin(location) for location in given.plugin],  # as any process finds them
    }


def _values(given: flags.FlagValues, axis: str) -> Sequence[Any]:
    values = given[axis].value
    if not values:
        raise ValueError(f"--{axis} is empty; expected values separated by commas.")
    if axis in NUMBERS:
        return _numbers(axis, values)
    variants = [*ROUTERS, *(each.name for family in FAMILIES.values() for each in family.variants)]
    known = {"arch": FAMILIES, "variant": dict.fromkeys(variants), **NAMED}[axis]
    for value in values:
        check_choice(f"--{axis}", value, known)
    return [name for name in known if name in values] if axis == "variant" else values


def _numbers(axis: str, texts: Sequence[str]) -> list[int]:
    try:
        values = [int(text) for text in texts]
    except ValueError:
        raise ValueError(
            f"--{axis}={','.join(texts)} is not valid; expected integers separated by commas."
        ) from None
    return [check_integer(f"--{axis}", value, NUMBERS[axis]) for value in values]


def _groups(found: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The cells that differ in their variant alone, together; family by family."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in found:
        groups.setdefault((cell["arch"], cell["num_rules"], cell["width"]), []).append(cell)
    archs = list(dict.fromkeys(arch for arch, *_ in groups))
    return [groups[key] for key in sorted(groups, key=lambda key: archs.index(key[0]))]


def _request(group: Sequence[dict[str, Any]], settings: Settings, backend: str) -> dict[str, Any]:
    """Cells that differ in their variant alone, with all that their process must know.

    Raises:
        ValueError: where they cannot be built, or do not fit into memory.
    """
    shared = {name: value for name, value in group[0].items() if name != "variant"}
    variants, members = [each["variant"] for each in group], shared["members"]
    check_members(members, f"--members={members}")
    options = {name: value for name, (value,) in settings["task"].items()}
    task = Task(shared["arch"], num_rules=shared["num_rules"], **options)
    router, model = (_options(part, settings, variants, task.family) for part in ("router", "model"))
    seeds = tuple((seed, 0) for seed in range(members))
    for name in variants:
        cell = Cell(task, shared["width"], name, seeds, router=router[name], model=model[name])
        check_cell(cell)
        check_fits(cell)
    return {
        **shared,
        "variants": variants,
        "backend": backend,
        "task": options,
        "router": router,
        "model": model[variants[0]],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def _options(
    namespace: str, settings: Settings, variants: Sequence[str], family: Family
) -> dict[str, dict[str, Any]]:
    """Those that each variant knows, of what --set gives."""
    known = {name: options_known(namespace, family, name) for name in variants}
    whose = " and ".join(variants) if namespace == "router" else f"the architecture {family.architecture!r}"
    check_names(namespace, settings[namespace], {one: 0 for own in known.values() for one in own}, whose)
    given = {name: value for name, (value,) in settings[namespace].items()}
    return {name: {one: given[one] for one in own if one in given} for name, own in known.items()}


def cells_of(request: Request) -> list[Row]:
    """What the rows of a request say of what was measured."""
    shared = {name: value for name, value in request.items() if name not in ("variants", "router")}
    return [
        {**shared, "variant": variant, "router": {variant: request["router"][variant]}}
        for variant in request["variants"]
    ]


def key_of(row: Request) -> str:
    """What a row is known by."""
    return json.dumps([row.get(name) for name in KEY], sort_keys=True)


def label_of(row: Request) -> str:
    """What a reader, or a folder, calls it: "mlp_r8_e32_modular_p25_tf32_device_accelerator_jax"."""
    return "{arch}_r{num_rules}_e{width}_{variant}_p{members}_{precision}_{data}_{kernels}_{backend}".format(
        **row
    )


def expected_seconds(request: Request, rows: Iterable[Request] = ()) -> float:
    """What measuring takes: the mean of the requests of its architecture, or a guess before there are any."""
    known = [row["wall_s"] for row in rows if row["arch"] == request["arch"] and "wall_s" in row]
    weights = request["members"] * least_parameters(FAMILIES[request["arch"]].architecture, request["width"])
    return (sum(known) / len(known) if known else GUESS) + GUESS_PER_WEIGHT * weights


def shard_requests(requests: Sequence[dict[str, Any]], shard: str | None) -> list[dict[str, Any]]:
    """The requests of one shard, in their order: shards take about as long, and together are all.

    Args:
        shard: "i/n"; None for all.
    """
    if shard is None:
        return list(requests)
    by_cost = sorted(range(len(requests)), key=lambda i: (-expected_seconds(requests[i]), i))
    return [requests[i] for i in sorted(shard_of(by_cost, shard))]
