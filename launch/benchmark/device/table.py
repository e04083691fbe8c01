"""The table of what was measured on a device, and which aims it meets."""

from collections.abc import Mapping, Sequence
from typing import Any

from modtf.families import FAMILIES
from modtf.launch.benchmark.device.grid import label_of
from modtf.launch.benchmark.device.paper import paper_hours
from modtf.launch.benchmark.table import CELL, Column, Goal, Row, cost_table, goal_lines

COLUMNS = [
    *CELL,
    Column("P", lambda row: str(row["members"])),
    Column("precision", lambda row: row["precision"]),
    Column("data", lambda row: row["data"]),
    Column("kernels", lambda row: row["kernels"]),
    Column("step ms", lambda row: f"{row['step_ms']:.3g}"),
    Column("members x steps/s", lambda row: f"{row['member_steps_per_s']:,.0f}"),
    Column("models/h", lambda row: f"{row['models_per_hour']:,.4g}"),
    Column("of peak", lambda row: f"{row['peak_fraction']:.1%}"),
    Column(
        "MiB", lambda row: "-" if row["program_bytes"] is None else f"{row['program_bytes'] / 2**20:,.0f}"
    ),
    Column("compile s", lambda row: f"{row['compile_s']:.1f}"),
    Column("/ 25 members", lambda row: f"{row['to_25_members']:.2f}"),
    Column("released models/h", lambda row: f"{row['released_models_per_hour']:,.3g}"),
    Column("x released", lambda row: f"{1 / row['to_released']:,.0f}x"),
]

#: each a cost that must not be above its limit
GOALS = [
    Goal("1 time over the released code's, e = 32, P = 25",
         lambda row: row["aim_released"], lambda row: 0.01),
    Goal("2 cost over arithmetic at matrix peak, one token, e = 128, P = 25 or more",
         lambda row: row["aim_peak"], lambda row: 1 / 0.35),
    Goal("3 a member of 100 over one of 25", lambda row: row["aim_members"], lambda row: 1.0),
]  # fmt: skip

SHAPE = ("arch", "num_rules", "width", "variant")


def print_table(rows: Sequence[Row], released: Sequence[Row] = ()) -> None:
    """Prints the rows that were measured, the device's peaks, the aims and what failed.

    Args:
        rows: of `Rows`.
        released: of docs/accelerator/released_speed.py; the best of each shape is compared with.
    """
    measured = compared([row for row in rows if "failed" not in row], released)
    if measured:
        print(cost_table(measured, COLUMNS))
        print("\n" + "\n".join([*peak_lines(measured), *goal_lines(measured, GOALS), *paper_lines(measured)]))
    for profiled in [row for row in measured if "slowest" in row]:
        print("\n" + "\n".join(trace_lines(profiled)))
    for blind in [row for row in measured if "trace_failed" in row]:
        print(f"no trace of {label_of(blind)}: {blind['trace_failed']}")
    for row in rows:
        if "failed" in row:
            print(f"failed: {' '.join(str(row.get(name)) for name in (*SHAPE, 'members'))}: {row['failed']}")


def trace_lines(row: Row) -> list[str]:
    """What a profiled cell's time went to."""
    head = (
        f"{label_of(row)}: {row['step_ms']:.3g} ms a step; in its trace {row['operations_per_step']:.0f} "
        f"operations, together {row['busy_ms']:.3g} ms"
    )
    return [head, *(f"  {taken:9.4f} ms  {name}" for name, taken in row["slowest"])]


def peak_lines(rows: Sequence[Row]) -> list[str]:
    """The device's matrix peak in every precision, as measured beside the cells."""
    lines = []
    for precision in dict.fromkeys(row["precision"] for row in rows):
        peaks = [row["peak_tflops"] for row in rows if row["precision"] == precision]
        lines.append(f"Matrix peak, {precision}: {min(peaks):.3g} to {max(peaks):.3g} TFLOP/s.")
    return [f"Wall time on {rows[0]['device']}; {rows[0]['software']}.", *lines]


def paper_lines(rows: Sequence[Row]) -> list[str]:
    """What the whole paper would cost, in every precision of which enough is measured."""
    return [
        f"The paper's 800 cells, training alone, {precision}: about {hours:,.0f} hours of it (estimate)."
        for precision, hours in paper_hours(rows).items()
    ]


def compared(rows: Sequence[Row], released: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """The rows with what compares them: with 25 members, with the released code, with the aims."""
    by_key: dict[tuple[Any, ...], Row] = {_but_members(row): row for row in rows if row["members"] == 25}
    best: dict[tuple[Any, ...], float] = {}
    for row in released:
        shape = tuple(row[name] for name in SHAPE)
        best[shape] = max(best.get(shape, 0.0), row["models_per_hour"])
    found = []
    for row in rows:
        new: dict[str, Any] = {}
        if row["members"] != 25 and (of_25 := by_key.get(_but_members(row))):
            new["to_25_members"] = of_25["member_steps_per_s"] / row["member_steps_per_s"]
        if theirs := best.get(tuple(row[name] for name in SHAPE)):
            new |= {"released_models_per_hour": theirs, "to_released": theirs / row["models_per_hour"]}
        found.append({**row, **new, **_aims(row, new)})
    return found


def _aims(row: Row, new: Mapping[str, float]) -> dict[str, float]:
    """What the aims speak of; each of the form of the kernels that is the device's own, or not, alike."""
    aims = {}
    if row["members"] == 25 and row["width"] == 32 and row["data"] == "device" and "to_released" in new:
        aims["aim_released"] = new["to_released"]
    plain = row["arch"] in FAMILIES and not FAMILIES[row["arch"]].is_sequence
    many = row["width"] == 128 and row["members"] >= 25
    if plain and many and row["precision"] in ("float32", "tf32") and row["data"] == "device":
        aims["aim_peak"] = 1 / row["peak_fraction"]
    if row["members"] == 100 and "to_25_members" in new:
        aims["aim_members"] = new["to_25_members"]
    return aims


def _but_members(row: Row) -> tuple[Any, ...]:
    return (*(row[name] for name in SHAPE), row["precision"], row["data"], row["kernels"], row["backend"])
