"""The flags of `launch/bench.py --device` as cells."""

import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from modtf.checks import check_choice
from modtf.families import FAMILIES
from modtf.launch.benchmark.device.grid import AXES, DEVICES, Cell, shard_cells, table
from modtf.launch.benchmark.requests import benchmark_settings, check_names_given, integers, model_options
from modtf.launch.settings import Settings, router_settings
from modtf.memory import check_members
from modtf.protocol import KERNELS, PLACES, PRECISIONS

NUMBERS = {"rules": 2, "width": 1, "members": 1}  # axis of numbers -> the least
NAMED = {"precision": PRECISIONS, "data": PLACES[1:], "kernels": KERNELS}  # axis of names -> which
CPU_TABLE = ("all", "baseline", "evaluation")  # flags that only the table of CPU time has


def define_device_flags(values: flags.FlagValues) -> None:
    """Adds --device and the flags that need it."""
    string, listed = flags.DEFINE_string, flags.DEFINE_list
    flags.DEFINE_enum("device", None, DEVICES, "Measure wall time on a device instead; other lists then "
                      "replace those of its table.", flag_values=values)  # fmt: skip
    string("shard", None, "With --device, i/n: part i (from 0) of n that take about as long.",
           flag_values=values)  # fmt: skip
    flags.DEFINE_float("minutes", 7.5, "With --device: begin nothing that would end later, stop what does.",
                       flag_values=values)  # fmt: skip
    flags.DEFINE_boolean("dry_run", False, "With --device: list what would be measured.", flag_values=values)
    for axis, names in NAMED.items():
        listed(axis, None, f"With --device: of {', '.join(names)}.", flag_values=values)
    string("profile", None, "With --device: a folder for the profiler's traces; measured cells are measured "
           "again.", flag_values=values)  # fmt: skip
    string("released", None, "With --device: rows of docs/accelerator/released_speed.py, to compare with.",
           flag_values=values)  # fmt: skip


def needs_device(given: flags.FlagValues) -> None:
    """Raises `ValueError` where a flag of --device is given without it."""
    for name in ("shard", "minutes", "dry_run", *NAMED, "profile", "released"):
        if given[name].present:
            raise ValueError(f"--{name} needs --device, one of {', '.join(DEVICES)}.")


def cells_of_flags(given: flags.FlagValues) -> list[Cell]:
    """The cells of the table, of this shard alone if there is one.

    Raises:
        ValueError: on values that have no meaning, before anything runs.
    """
    for name in CPU_TABLE:
        if given[name].present:
            raise ValueError(f"--{name} belongs to the table of CPU time: leave it or --device out.")
    if not 0 < given.minutes < float("inf"):
        raise ValueError(f"--minutes={given.minutes} must be a finite number above 0.")
    chosen = {axis: _values(given, axis) for axis in AXES if given[axis].present}
    check_names_given({"arch": chosen.get("arch", []), "variant": chosen.get("variant", [])})
    settings = benchmark_settings(given)
    cells = [_with_options(cell, settings, given.backend) for cell in table(given.device, chosen)]
    return shard_cells(cells, given.shard)


def _values(given: flags.FlagValues, axis: str) -> Sequence[Any]:
    values = given[axis].value
    if not values:
        raise ValueError(f"--{axis} is empty; expected values separated by commas.")
    if axis in NUMBERS:
        return integers(f"--{axis}", values, NUMBERS[axis])
    for value in values:
        check_choice(f"--{axis}", value, NAMED.get(axis, [value]))
    return values


def _with_options(cell: Cell, settings: Settings, backend: str) -> dict[str, Any]:
    """A cell with everything that its worker must know."""
    check_members(cell["members"], f"--members={cell['members']}")
    shape = [cell[name] for name in ("arch", "num_rules", "width", "variant", "members")]
    task = {
        name: value
        for name, value in settings["task"].items()
        if name in {option.name for option in FAMILIES[cell["arch"]].options}
    }
    own = {**settings, "task": task}
    return {
        **cell,
        "backend": backend,
        "task": task,
        "router": router_settings(settings, [cell["variant"]]),
        "model": model_options(own, *shape),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }
