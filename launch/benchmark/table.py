"""Tables that `launch/bench.py` prints."""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from modtf.launch.benchmark.requests import MEMORY, PUBLISHED_MEMBERS
from modtf.launch.benchmark.timing import BASELINES
from modtf.pages.text import text_table

Row = Mapping[str, Any]
#: heading -> how a row fills it, as `str.format` does or a function; empty where the row lacks what it needs
Columns = Mapping[str, str | Callable[[Row], str]]


def _over_ours(name: str) -> Callable[[Row], str]:
    return lambda row: f"{row[f'{name}_ms'] / row['train_ms']:.1f}x"


def _mebibytes(form: str) -> Callable[[Row], str]:
    return lambda row: "-" if row["program_bytes"] is None else format(row["program_bytes"] / 2**20, form)


CELL: Columns = {"arch": "{arch}", "R": "{num_rules}", "e": "{width}", "variant": "{variant}"}
COST: Columns = {
    **CELL,
    "step ms": "{step_ms:.2f}",
    "/mono": "{to_monolithic:.2f}",
    "train ms": "{train_ms:.2f}",
    "of peak": "{peak_fraction:.0%}",
    "data": lambda row: f"{row['data_ms'] / row['step_ms']:.1%}",
    "fit": "{fit_overhead:+.0%}",
    "compile s": "{compile_s:.1f}",
    "MiB": _mebibytes(".1f"),
    "x alone": "{to_alone:.2f}",
    "gate units": "{gate_units:.2f}x",
}
EVALUATION: Columns = {
    **CELL,
    "evaluation s": "{evaluation_s:.2f}",
    "its compilation s": "{evaluation_compile_s:.2f}",
    "training s": "{training_s:.0f}",
    "share": "{evaluation_share:.2%}",
}
DEVICE: Columns = {
    **CELL,
    "P": "{members}",
    "precision": "{precision}",
    "data": "{data}",
    "kernels": "{kernels}",
    "step ms": "{step_ms:.3g}",
    "members x steps/s": "{member_steps_per_s:,.0f}",
    "models/h": "{models_per_hour:,.4g}",
    "of peak": "{peak_fraction:.1%}",
    "MiB": _mebibytes(",.0f"),
    "compile s": "{compile_s:.1f}",
    "/ 25 members": "{to_25_members:.2f}",
    "released models/h": "{released_models_per_hour:,.3g}",
    "x released": lambda row: f"{1 / row['to_released']:,.0f}x",
    "options": lambda row: options_of(row),
}
SHAPE = ("arch", "num_rules", "width", "variant")
_shape = itemgetter(*SHAPE)


def _but_members(row: Row) -> tuple[Any, ...]:
    return *itemgetter(*SHAPE, "precision", "data", "kernels", "backend")(row), options_of(row)


def options_of(row: Row) -> str:
    """Return the options of a row in JSON, "" if it has none."""
    named = {name: row.get(name) for name in ("task", "model", "xla_flags")}
    given = {**named, "router": row.get("router", {}).get(row["variant"])}
    given = {name: value for name, value in given.items() if value}
    return json.dumps(given, sort_keys=True) if given else ""


def print_table(rows: Sequence[Row], released: Sequence[Row] = ()) -> None:
    """Print the rows of one table, the peaks, and the failures; `released` are rows of
    docs/accelerator/released_speed.py."""
    measured: Sequence[Row] = [row for row in rows if "failed" not in row]
    if measured and measured[0]["data"] == MEMORY:
        print(cost_table(measured, EVALUATION if "evaluation_s" in measured[0] else core_columns()))
        print("\n".join(core_lines(measured)))
    elif measured:
        measured = compared(measured, released)
        print(cost_table(measured, DEVICE))
        print("\n" + "\n".join(device_lines(measured)))
    for row in rows:
        if "failed" in row:
            print(f"failed: {' '.join(str(row.get(name)) for name in (*SHAPE, 'members'))}: {row['failed']}")


def cost_table(rows: Sequence[Row], columns: Columns) -> str:
    """Return a table in plain text; columns without a value are left out."""

    def filled(fill: str | Callable[[Row], str], row: Row) -> str:
        try:
            return fill.format_map(row) if isinstance(fill, str) else fill(row)
        except KeyError:
            return ""

    texts = {heading: [filled(fill, row) for row in rows] for heading, fill in columns.items()}
    used = {heading: column for heading, column in texts.items() if any(column)}
    return text_table(list(used), list(zip(*used.values(), strict=True)))


def core_columns() -> Columns:
    """Return the columns of CPU time, with those of the baselines that plug-ins registered."""
    columns = dict(COST)
    for name in BASELINES:
        columns |= {f"{name} ms": f"{{{name}_ms:.1f}}", f"{name}/ours": _over_ours(name)}
    return columns


def core_lines(rows: Sequence[Row]) -> list[str]:
    """Return the matrix peak of the core, if it was measured, and the empty parts of the table with the
    reason."""
    lines = []
    if peaks := [row["peak_gflops"] for row in rows if "peak_gflops" in row]:
        between = f"between {min(peaks):.0f} and {max(peaks):.0f}"
        lines.append(f"\nMatrix peak of the core: {between} GFLOP/s. CPU time, one core.")
    for name in BASELINES:
        if alone := [f"{row['arch']} {row['variant']}" for row in rows if row.get(f"has_{name}") is False]:
            lines.append(f"{name} has no counterpart of: {', '.join(dict.fromkeys(alone))}.")
    return lines


def device_lines(rows: Sequence[Row]) -> list[str]:
    """Return the device's matrix peak in every precision, as measured beside the cells."""
    lines = [f"Wall time on {rows[0]['device']}; {rows[0]['software']}."]
    for precision in dict.fromkeys(row["precision"] for row in rows):
        peaks = [row["peak_tflops"] for row in rows if row["precision"] == precision]
        lines.append(f"Matrix peak, {precision}: between {min(peaks):.3g} and {max(peaks):.3g} TFLOP/s.")
    return lines


def compared(rows: Sequence[Row], released: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """Return the rows with their comparisons: with 25 members, and with the best of the released code."""
    many = {_but_members(row): row for row in rows if row["members"] == PUBLISHED_MEMBERS}
    speed = itemgetter("models_per_hour")
    best = {_shape(row): speed(row) for row in sorted(released, key=speed)}  # the last of a shape counts
    extended = []
    for row in rows:
        new: dict[str, Any] = {}
        if row["members"] != PUBLISHED_MEMBERS and (of_25 := many.get(_but_members(row))):
            new["to_25_members"] = of_25["member_steps_per_s"] / row["member_steps_per_s"]
        if (reference := best.get(_shape(row))) and not options_of(row):
            new |= {"released_models_per_hour": reference, "to_released": reference / row["models_per_hour"]}
        extended.append({**row, **new})
    return extended
