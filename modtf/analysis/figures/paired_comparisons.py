"""The same task and seed with one variant and the next: by how much is it better?"""

from collections.abc import Iterator

import pandas as pd

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.notes import span
from modtf.analysis.figures.panels import Grid, empty_panel, make_grid
from modtf.analysis.figures.style import colour, in_order, kinds_in, with_labels
from modtf.results import PAIRS, Study, compare_pairs
from modtf.analysis.performance import IN, OUT

BY = ["arch", "setting", "search", "num_rules", "measure", "scale", "seq_len", "condition"]

SHOWN = ["advantage", "advantage_low", "advantage_high"]


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture: relative advantage by kind and number of rules, a column per pair."""
    table = compare_pairs(study.performance, by=BY, over=["width"], bootstrap=study.bootstrap)
    if table.empty:
        raise NothingToDraw("no task and seed was run with two variants that are compared")
    table = with_labels(table)
    kinds = kinds_in(table)
    found = [pair for pair in PAIRS if ((table["first"] == pair[0]) & (table["second"] == pair[1])).any()]
    widths = sorted(study.performance["width"].unique())
    text = (
        "By which share the first's loss or error is below the second's on the same task and seed (right of "
        f"0: the first is better); mean and {study.bootstrap.level:.0%} bootstrap interval over "
        f"{span(table['num_models'], 'pair')} each; filled: in, hollow: out of distribution; checkpoint "
        f"{study.checkpoint}; width{'s' * (len(widths) > 1)} {', '.join(map(str, widths))}."
    )
    absent = [f"{first} against {second}" for first, second in PAIRS if (first, second) not in found]
    text += f" Incomplete: no {', no '.join(absent)}." if absent else ""
    rules = sorted(table["num_rules"].unique())
    columns = [f"{first} against {second}" for first, second in found]
    size = (2.4, 0.25 + 0.26 * len(rules))
    title = "Paired comparisons"
    grid = make_grid(
        kinds, columns, title, text, panel=size, legend=False, x_label="Relative advantage", gaps=(0.4, 0.3)
    )
    limit = min(1.0, 1.1 * float(table[SHOWN].abs().max().max()) + 0.01)
    for r, kind in enumerate(kinds):
        for c, (first, second) in enumerate(found):
            rows = table[(table["kind"] == kind) & (table["first"] == first) & (table["second"] == second)]
            _panel(grid, r, c, rows, rules, limit)
    yield Picture("paired_comparisons", title, text, grid.figure, table.drop(columns=["family", "kind"]))


def _panel(grid: Grid, r: int, c: int, rows: pd.DataFrame, rules: list[int], limit: float) -> None:
    axes = grid.panel(r, c)
    if rows.empty:
        empty_panel(axes)
        return
    axes.axvline(0, color="black", linewidth=0.8)
    for condition in in_order(rows["condition"], (IN, OUT)):
        part = rows[rows["condition"] == condition]
        shift = 0.14 if condition == IN else -0.14
        y = [len(rules) - 1 - rules.index(n) + shift for n in part["num_rules"]]
        errors = pd.DataFrame(
            {
                "low": part["advantage"] - part["advantage_low"],
                "high": part["advantage_high"] - part["advantage"],
            }
        )
        tint = colour(str(part["first"].iloc[0]), list(rows["first"]))
        axes.errorbar(
            part["advantage"],
            y,
            xerr=errors.fillna(0).clip(lower=0).to_numpy().T,
            linestyle="none",
            marker="o",
            markersize=4.5,
            color=tint,
            markerfacecolor=tint if condition == IN else "white",
            capsize=2,
            elinewidth=1.0,
        )
    axes.set_xlim(-limit, limit)
    axes.set_ylim(-0.6, len(rules) - 0.4)
    axes.set_yticks(range(len(rules)), [f"R = {n}" for n in reversed(rules)] if c == 0 else [""] * len(rules))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0%}" if abs(value) > 1e-9 else "0")
    axes.locator_params(axis="x", nbins=5)
