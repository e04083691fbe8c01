"""The tables that `launch/bench.py` prints, and which goals they meet."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from modtf.analysis.text import text_table
from modtf.families import FAMILIES
from modtf.launch.benchmark.requests import MEMORY, PUBLISHED_MEMBERS

Row = Mapping[str, Any]
#: heading -> how a row fills it, as `str.format` does or a function; empty where the row lacks what it needs
Columns = Mapping[str, str | Callable[[Row], str]]


def _mebibytes(form: str) -> Callable[[Row], str]:
    return lambda row: "-" if row["program_bytes"] is None else format(row["program_bytes"] / 2**20, form)


CELL: Columns = {"arch": "{arch}", "R": "{num_rules}", "e": "{width}", "variant": "{variant}"}
COST: Columns = {
    **CELL,
    "step ms": "{step_ms:.2f}",
    "/mono": "{to_monolithic:.2f}",
    "/plain": "{to_plain:.2f}",
    "train ms": "{train_ms:.2f}",
    "textbook ms": "{textbook_ms:.1f}",
    "textbook/ours": lambda row: f"{row['textbook_ms'] / row['train_ms']:.1f}x",
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
}
PLAIN_LIMIT = 1.3  # of a step over that of plain layers
HELD = ("all_all_all", "group_all_all")  # what is held to it: as much arithmetic
SHAPE = ("arch", "num_rules", "width", "variant")
_shape = itemgetter(*SHAPE)
_but_members = itemgetter(*SHAPE, "precision", "data", "kernels", "backend")


class Goal(NamedTuple):
    """A limit on a ratio, which may differ from row to row; of rows that have it."""

    name: str
    value: Callable[[Row], float]
    limit: Callable[[Row], float]
    of: Callable[[Row], bool] = lambda row: True


GOALS = [
    Goal("1 cost over monolithic",
         lambda row: row["to_monolithic"], lambda row: 2.0 if "gate_units" in row else 1.25),
    Goal("1 cost over plain layers without routing", lambda row: row["to_plain"], lambda row: PLAIN_LIMIT,
         lambda row: row["variant"] in HELD),
    Goal("2 cost over arithmetic at matrix peak",
         lambda row: 1 / row["peak_fraction"], lambda row: 1 / (0.4 if row["width"] < 128 else 0.7)),
    Goal("3 data over step",
         lambda row: row["data_ms"] / row["step_ms"], lambda row: 0.15 if row["width"] < 128 else 0.05),
    Goal("4 fit over bare loop, smallest cell", lambda row: row["smallest_fit"], lambda row: 0.10),
    Goal("5 member of a population over one alone", lambda row: row["to_alone"], lambda row: 1.0),
    Goal("5 compile seconds", lambda row: row["compile_s"], lambda row: 10.0),
    Goal("7 evaluation over training", lambda row: row["evaluation_share"], lambda row: 0.02),
]  # fmt: skip
#: each a cost that must not be above its limit, of either form of the kernels
DEVICE_GOALS = [
    Goal("1 time over the released code's, e = 32, P = 25", lambda row: row["to_released"], lambda row: 0.01,
         lambda row: (row["width"], row["members"], row["data"]) == (32, PUBLISHED_MEMBERS, "device")),
    Goal("2 cost over arithmetic at matrix peak, one token, e = 128, P = 25 or more",
         lambda row: 1 / row["peak_fraction"], lambda row: 1 / 0.35,
         lambda row: (row["width"], row["data"]) == (128, "device") and row["members"] >= PUBLISHED_MEMBERS
         and row["precision"] in ("float32", "tf32") and not FAMILIES[row["arch"]].is_sequence),
    Goal("3 a member of 100 over one of 25", lambda row: row["to_25_members"], lambda row: 1.0,
         lambda row: row["members"] == 100),
]  # fmt: skip


def print_table(rows: Sequence[Row], released: Sequence[Row] = ()) -> None:
    """Prints the rows that were measured, the peaks, which goals they meet, and what failed.

    Args:
        rows: of one table, of CPU time or of a device.
        released: of docs/accelerator/released_speed.py; the best of each shape is compared with.
    """
    measured: Sequence[Row] = [row for row in rows if "failed" not in row]
    if measured and measured[0]["data"] == MEMORY:
        print(cost_table(measured, EVALUATION if "evaluation_s" in measured[0] else COST))
        print("\n".join([*core_lines(measured), *goal_lines(measured, GOALS)]))
    elif measured:
        measured = compared(measured, released)
        print(cost_table(measured, DEVICE))
        print("\n" + "\n".join([*device_lines(measured), *goal_lines(measured, DEVICE_GOALS)]))
    for row in rows:
        if "failed" in row:
            print(f"failed: {' '.join(str(row.get(name)) for name in (*SHAPE, 'members'))}: {row['failed']}")


def cost_table(rows: Sequence[Row], columns: Columns) -> str:
    """A table in plain text; columns without a value are left out."""

    def filled(fill: str | Callable[[Row], str], row: Row) -> str:
        try:
            return fill.format_map(row) if isinstance(fill, str) else fill(row)
        except KeyError:
            return ""

    texts = {heading: [filled(fill, row) for row in rows] for heading, fill in columns.items()}
    used = {heading: found for heading, found in texts.items() if any(found)}
    return text_table(list(used), list(zip(*used.values(), strict=True)))


def goal_lines(rows: Sequence[Row], goals: Sequence[Goal]) -> list[str]:
    """One line per goal that the rows speak of: met or not, in how many cells, and the worst."""
    fits = [row for row in rows if "fit_overhead" in row]
    smallest = min(fits, key=lambda row: row["flops"], default=None)
    rows = [{**row, "smallest_fit": row["fit_overhead"]} if row is smallest else row for row in rows]
    lines = []
    for goal in goals:
        judged = []
        for row in rows:
            with contextlib.suppress(KeyError):
                if goal.of(row):
                    judged.append((goal.value(row), goal.limit(row), row))
        if not judged:
            continue
        met = sum(value <= limit for value, limit, _ in judged)
        value, limit, row = max(judged, key=lambda found: found[0] / found[1])
        cell = f"{row['arch']} R={row['num_rules']} e={row['width']} {row['variant']}"
        verdict = "met" if met == len(judged) else f"NOT met in {len(judged) - met} of {len(judged)}"
        lines.append(f"goal {goal.name}: {verdict}; worst {value:.3g} (limit {limit:.3g}) at {cell}")
    return lines


def core_lines(rows: Sequence[Row]) -> list[str]:
    """The matrix peak of the core, if it was measured; and what the table leaves empty, and why."""
    lines = []
    if peaks := [row["peak_gflops"] for row in rows if "peak_gflops" in row]:
        between = f"{min(peaks):.0f} to {max(peaks):.0f}"
        lines.append(f"\nMatrix peak of the core: {between} GFLOP/s. CPU time, one core.")
    if alone := [f"{row['arch']} {row['variant']}" for row in rows if row.get("has_textbook") is False]:
        names = ", ".join(dict.fromkeys(alone))
        lines.append(f"Not compared with a textbook form, as there is none: {names}.")
    return lines


def device_lines(rows: Sequence[Row]) -> list[str]:
    """The device's matrix peak in every precision, as measured beside the cells."""
    lines = [f"Wall time on {rows[0]['device']}; {rows[0]['software']}."]
    for precision in dict.fromkeys(row["precision"] for row in rows):
        peaks = [row["peak_tflops"] for row in rows if row["precision"] == precision]
        lines.append(f"Matrix peak, {precision}: {min(peaks):.3g} to {max(peaks):.3g} TFLOP/s.")
    return lines


def compared(rows: Sequence[Row], released: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """The rows with what compares them: with 25 members, and with the best of the released code."""
    many = {_but_members(row): row for row in rows if row["members"] == PUBLISHED_MEMBERS}
    speed = itemgetter("models_per_hour")
    best = {_shape(row): speed(row) for row in sorted(released, key=speed)}  # the last of a shape counts
    found = []
    for row in rows:
        new: dict[str, Any] = {}
        if row["members"] != PUBLISHED_MEMBERS and (of_25 := many.get(_but_members(row))):
            new["to_25_members"] = of_25["member_steps_per_s"] / row["member_steps_per_s"]
        if theirs := best.get(_shape(row)):
            new |= {"released_models_per_hour": theirs, "to_released": theirs / row["models_per_hour"]}
        found.append({**row, **new})
    return found
