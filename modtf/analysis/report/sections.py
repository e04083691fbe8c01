"""What the page says besides figures: what was run and how, what is missing, claims, measures."""

from collections.abc import Sequence

import pandas as pd

from modtf.launch import report_page as page
from modtf.analysis.figures.style import variants_in
from modtf.metrics import measures
from modtf.results import CellFolder, Study, compare_pairs
from modtf.analysis.claims.text import claim_lines

KIND = ["arch", "setting", "search"]
PAIRED = ["first", "second", "arch", "setting", "search", "num_rules", "width", "condition"]
PAIRED += ["advantage", "advantage_low", "advantage_high", "effect_size", "wins", "num_tasks", "num_models"]


def protocol_section(study: Study) -> page.Section:
    """How the models were trained and evaluated, and how many there are."""
    frame = pd.DataFrame([_row(cell) for cell in study.cells if cell.is_finished])
    rows = []
    for (arch, setting, search, protocol), cells in frame.groupby([*KIND, "protocol"], sort=False):
        members = [member for cell in cells["members"] for member in cell]
        rows.append(
            {
                "arch": arch,
                "setting": setting,
                "search": search,
                "R": _listing(cells["num_rules"]),
                "widths": _listing(cells["width"]),
                "variants": ", ".join(variants_in(cells)),
                "tasks": len({data_seed for data_seed, _ in members}),
                "seeds": len({seed for _, seed in members}),
                "cells": len(cells),
                "models": len(members),
                "protocol": protocol,
            }
        )
    total = sum(len(members) for members in frame["members"])
    text = (
        f"{total} trained models in {len(frame)} cells; checkpoint evaluated: {study.checkpoint}. A cell is "
        "one architecture, setting, number of rules R, width and variant; its models differ in task, seed. "
        f"Intervals: {study.bootstrap.level:.0%} percentiles of {study.bootstrap.resamples} bootstrap means, "
        "tasks drawn anew first, then seeds within each task drawn (seed of the bootstrap: "
        f"{study.bootstrap.seed}). With fewer than about five tasks such intervals are too narrow."
    )
    return page.Section("What was run", page.paragraph(text) + page.table(pd.DataFrame(rows)))


def _row(cell: CellFolder) -> dict[str, object]:
    """The values of a cell, its members, and how it was trained and evaluated, in words."""
    said = [f"{name} {cell.config[name]}" for name in ("preset", "version") if cell.config.get(name)]
    for part in ("training", "evaluation"):
        settings = (cell.config.get(part) or {}).items()
        said.append(f"{part}: " + ", ".join(f"{k} {v}" for k, v in settings if v is not None))
    return {**cell.cell, "members": cell.members, "protocol": f"{cell.protocol}: {'; '.join(said)}"}


def _listing(values: pd.Series) -> str:
    return ", ".join(str(value) for value in dict.fromkeys(sorted(values)))


def missing_section(missing: pd.DataFrame, undrawn: Sequence[tuple[str, str]]) -> page.Section:
    """Cells that are not there, and figures that could not be drawn."""
    if missing.empty:
        body = page.paragraph("No cell is missing from the grid that the results span.")
    else:
        counts = ", ".join(f"{n} {status}" for status, n in missing["status"].value_counts().items())
        body = page.paragraph(f"Missing from the grid that the results span: {counts}.", "missing")
        body += page.table(missing, "missing.csv")
    for name, reason in undrawn:
        body += page.paragraph(f"Not drawn: {name}, because {reason}.", "missing")
    return page.Section("What is missing", body)


def claims_section(judged: pd.DataFrame, study: Study) -> page.Section:
    """The verdict on every claim, and all the numbers behind it."""
    text = (
        "A claim is supported if the interval of every number it stands on lies where the claim says, "
        "contradicted if one lies on the other side; otherwise there are not enough runs to tell, as with "
        "fewer than 3 tasks. The number that decided is shown; all are in tables/claims.csv."
    )
    lines = claim_lines(judged, study.bootstrap.level)
    return page.Section("Claims of the paper", page.paragraph(text) + page.claims_table(lines))


def paired_table(study: Study) -> pd.DataFrame:
    """Paired comparisons of every cell."""
    by = [*KIND, "num_rules", "width", "condition", "measure", "scale", "seq_len"]
    return compare_pairs(study.performance, by=by, bootstrap=study.bootstrap)


def paired_section(paired: pd.DataFrame) -> page.Section:
    """The comparisons, cell by cell."""
    text = (
        "Two variants on the same task and seed. advantage: by which share the first's loss or error is "
        "below the second's; effect size: mean gain over its standard deviation between pairs; wins: share "
        "of pairs won."
    )
    if paired.empty:
        return page.Section(
            "Paired comparisons", page.paragraph("No two variants share a task and seed.", "missing")
        )
    body = page.paragraph(text) + page.table(paired[PAIRED], "paired_comparisons_by_cell.csv")
    return page.Section("Paired comparisons, cell by cell", body)


def measures_section() -> page.Section:
    """What every measure means."""
    rows = [
        {
            "measure": m.name,
            "what it says": m.description,
            "range": f"{m.range[0]:g} to {m.range[1]:g}",
            "perfect": f"{m.perfect:g}",
            "better": "smaller" if m.smaller_is_better else "larger",
        }
        for m in measures()
    ]
    return page.Section("Measures", page.table(pd.DataFrame(rows)))
