"""The tables that `launch/bench.py` prints, and which goals they meet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modtf.analysis.text import text_table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A heading and how a row fills it; empty where the row lacks what it needs."""

    heading: str
    text: Callable[[Row], str]

    def of(self, row: Row) -> str:
        try:
            return self.text(row)
        except KeyError:
            return ""


CELL = [
    Column("arch", lambda row: row["arch"]),
    Column("R", lambda row: str(row["num_rules"])),
    Column("e", lambda row: str(row["width"])),
    Column("variant", lambda row: row["variant"]),
]
COST = [
    *CELL,
    Column("step ms", lambda row: f"{row['step_ms']:.2f}"),
    Column("/mono", lambda row: f"{row['to_monolithic']:.2f}"),
    Column("train ms", lambda row: f"{row['train_ms']:.2f}"),
    Column("textbook ms", lambda row: f"{row['textbook_ms']:.1f}"),
    Column("textbook/ours", lambda row: f"{row['textbook_ms'] / row['train_ms']:.1f}x"),
    Column("of peak", lambda row: f"{row['peak_fraction']:.0%}"),
    Column("data", lambda row: f"{row['data_ms'] / row['step_ms']:.1%}"),
    Column("fit", lambda row: f"{row['fit_overhead']:+.0%}"),
    Column("compile s", lambda row: f"{row['compile_s']:.1f}"),
    Column("MiB", lambda row: "-" if row["program_bytes"] is None else f"{row['program_bytes'] / 2**20:.1f}"),
    Column("x alone", lambda row: f"{row['to_alone']:.2f}"),
    Column("gate units", lambda row: f"{row['gate_units']:.2f}x"),
]
EVALUATION = [
    *CELL,
    Column("evaluation s", lambda row: f"{row['evaluation_s']:.2f}"),
    Column("its compilation s", lambda row: f"{row['evaluation_compile_s']:.2f}"),
    Column("training s", lambda row: f"{row['training_s']:.0f}"),
    Column("share", lambda row: f"{row['evaluation_share']:.2%}"),
]


def cost_table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """A table in plain text; columns without a value are left out."""
    used = [column for column in columns if any(column.of(row) for row in rows)]
    return text_table(
        [column.heading for column in used], [[column.of(row) for column in used] for row in rows]
    )


@dataclass(frozen=True)
class Goal:
    """A limit on a ratio, which may differ from row to row."""

    name: str
    value: Callable[[Row], float]
    limit: Callable[[Row], float]


def _peak_limit(row: Row) -> float:
    return 1 / (0.4 if row["width"] < 128 else 0.7)


GOALS = [
    Goal(
        "1 cost over monolithic",
        lambda row: row["to_monolithic"],
        lambda row: 2.0 if "gate_units" in row else 1.25,
    ),
    Goal("2 cost over arithmetic at matrix peak", lambda row: 1 / row["peak_fraction"], _peak_limit),
    Goal(
        "3 data over step",
        lambda row: row["data_ms"] / row["step_ms"],
        lambda row: 0.15 if row["width"] < 128 else 0.05,
    ),
    Goal("4 fit over bare loop, smallest cell", lambda row: row["smallest_fit"], lambda row: 0.10),
    Goal(
        "5 member of a population over one alone",
        lambda row: row["to_alone"],
        lambda row: 1.0,
    ),
    Goal("5 compile seconds", lambda row: row["compile_s"], lambda row: 10.0),
    Goal("7 evaluation over training", lambda row: row["evaluation_share"], lambda row: 0.02),
]


def goal_lines(rows: Sequence[Row], goals: Sequence[Goal] = GOALS) -> list[str]:
    """One line per goal that the rows speak of: met or not, in how many cells, and the worst."""
    fits = [row for row in rows if "fit_overhead" in row]
    smallest = min(fits, key=lambda row: row["flops"], default=None)
    rows = [{**row, "smallest_fit": row["fit_overhead"]} if row is smallest else row for row in rows]
    lines = []
    for goal in goals:
        judged = []
        for row in rows:
            try:
                judged.append((goal.value(row), goal.limit(row), row))
            except KeyError:
                continue
        if not judged:
            continue
        met = sum(value <= limit for value, limit, _ in judged)
        value, limit, row = max(judged, key=lambda found: found[0] / found[1])
        cell = f"{row['arch']} R={row['num_rules']} e={row['width']} {row['variant']}"
        verdict = "met" if met == len(judged) else f"NOT met in {len(judged) - met} of {len(judged)}"
        lines.append(f"goal {goal.name}: {verdict}; worst {value:.3g} (limit {limit:.3g}) at {cell}")
    return lines


def note_lines(rows: Sequence[Row]) -> list[str]:
    """What the table leaves empty, and why."""
    alone = [f"{row['arch']} {row['variant']}" for row in rows if row.get("has_textbook") is False]
    if not alone:
        return []
    return [f"Not compared with a textbook form, as there is none: {', '.join(dict.fromkeys(alone))}."]
