"""What is measured on a device: the table, in parts, and how it is cut for a short time on a card."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from modtf.engines.shard import shard_of
from modtf.families import FAMILIES
from modtf.models.architectures.sizes import least_parameters
from modtf.protocol import KERNELS, PRECISIONS

DEVICES = ("gpu", "cpu")
OWN_KERNELS = dict(zip(DEVICES, reversed(KERNELS), strict=True))  # those that a device gets by itself

OWN, OTHER = "own", "other"  # kernels of a part, before a device is known

GUESS = 15.0  # seconds of a cell: building, compiling, measuring; until some were measured
GUESS_PER_WEIGHT = 5e-8  # more, of all members: weights are drawn on the host

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """All combinations of some values."""

    rules: tuple[int, ...] = (8,)
    width: tuple[int, ...] = (32, 128)
    members: tuple[int, ...] = (25,)
    precision: tuple[str, ...] = ("float32",)
    data: tuple[str, ...] = ("device",)
    kernels: tuple[str, ...] = (OWN,)
    variant: tuple[str, ...] = ("modular",)  # the dearest
    arch: tuple[str, ...] = ()  # all families


#: of most worth first; flags of the same names replace what a part lists
TABLE = (
    Part(precision=PRECISIONS),
    Part(members=(1, 5, 100)),
    Part(width=(512,), precision=PRECISIONS),
    Part(kernels=(OTHER,)),
    Part(members=(1, 25), data=("host",)),
    Part(rules=(32,), width=(32,), members=(1, 25, 100)),
    Part(members=(100,), precision=PRECISIONS[1:]),
)
AXES = tuple(field.name for field in fields(Part))
NAMES = {"rules": "num_rules"}  # axes that a row calls otherwise

#: what tells one measurement from another
KEY = ("arch", "num_rules", "width", "variant", "members", "precision", "data", "kernels", "backend",
       "task", "router", "model", "xla_flags")  # fmt: skip


def table(device: str, given: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The cells of the table, each once.

    Args:
        device: one of `DEVICES`.
        given: axis -> values that replace those of every part.

    Example:
        >>> len(table("gpu", {"members": [25], "width": [32]}))  # of three families
        18
    """
    own = OWN_KERNELS[device]
    kernels = {OWN: own, OTHER: next(name for name in KERNELS if name != own)}
    found: dict[str, dict[str, Any]] = {}
    for part in TABLE:
        values = [given.get(axis) or getattr(part, axis) or tuple(FAMILIES) for axis in AXES]
        for chosen in product(*values):
            cell = {NAMES.get(axis, axis): value for axis, value in zip(AXES, chosen, strict=True)}
            cell["kernels"] = kernels.get(cell["kernels"], cell["kernels"])
            found.setdefault(json.dumps(cell), cell)
    return list(found.values())


def key_of(cell: Cell) -> str:
    """What a cell, or its row, is known by."""
    return json.dumps([cell.get(name) for name in KEY], sort_keys=True)


def label_of(cell: Cell) -> str:
    """What a reader, or a folder, calls it: "mlp_r8_e32_modular_p25_tf32_device_accelerator"."""
    return "{arch}_r{num_rules}_e{width}_{variant}_p{members}_{precision}_{data}_{kernels}_{backend}".format(
        **cell
    )


def expected_seconds(cell: Cell, rows: Iterable[Mapping[str, Any]] = ()) -> float:
    """What measuring a cell takes: the mean of those of its architecture, or a guess before there are any."""
    known = [row["wall_s"] for row in rows if row["arch"] == cell["arch"] and "wall_s" in row]
    weights = cell["members"] * least_parameters(FAMILIES[cell["arch"]].architecture, cell["width"])
    return (sum(known) / len(known) if known else GUESS) + GUESS_PER_WEIGHT * weights


def shard_cells(cells: Sequence[Cell], shard: str | None) -> list[Cell]:
    """The cells of one shard, in the table's order: shards take about as long, and together are the table.

    Args:
        shard: "i/n"; None for all.
    """
    if shard is None:
        return list(cells)
    by_cost = sorted(range(len(cells)), key=lambda i: (-expected_seconds(cells[i]), i))
    return [cells[i] for i in sorted(shard_of(by_cost, shard))]
