"""Loss or error against the number of rules, in and out of distribution; one figure per width."""

from collections.abc import Iterator
from typing import Any

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.lines import draw_lines, performance_axis
from modtf.analysis.figures.notes import lacks, note, points_lack
from modtf.analysis.figures.panels import add_legend, make_grid
from modtf.analysis.figures.style import FAMILIES, SETTINGS, in_order, variants_in, with_labels
from modtf.metrics import MEASURES
from modtf.results import CELL, Study, summarise
from modtf.analysis.performance import IN, MEASURE_OF_SETTING, OUT

R_LABEL = "Number of rules R"
OUT_OF_DISTRIBUTION = "out of distribution: inputs x 2, sequences of 30 tokens"


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per width."""
    rows = study.performance
    if rows.empty:
        raise NothingToDraw("there is no loss or error at scale 1 and the training length")
    summary = summarise(
        rows, [*CELL, "measure", "condition"], ["scale", "seq_len"], bootstrap=study.bootstrap
    )
    summary = with_labels(summary)
    summary["column"] = summary["setting"] + ", " + summary["condition"]
    for width, part in summary.groupby("width"):
        families, variants = in_order(part["family"], FAMILIES), variants_in(part)
        columns = in_order(part["column"], [f"{s}, {c}" for s in SETTINGS for c in (IN, OUT)])
        lacking = lacks(part) + points_lack(part, ["family", "column"], "num_rules", "R")
        text = note(study, part, f"width {width}", OUT_OF_DISTRIBUTION, "smaller is better", lacking=lacking)
        title = f"Performance against number of rules (width {width})"
        labels = [column.replace(", ", "\n", 1) for column in columns]
        grid = make_grid(families, labels, title, text, panel=(2.5, 1.9), x_label=R_LABEL, gaps=(0.7, 0.5))
        chosen = (("family", families), ("column", columns))
        draw_lines(grid, part, *chosen, "num_rules", variants, performance_axis)
        for place, column in enumerate(columns):
            for axes in grid.axes[:, place]:
                axes.set_ylabel(measure_label(column.split(",")[0]), size=8.5)
        add_legend(grid.figure, variants)
        table = part.drop(columns=["family", "kind", "column"])
        yield Picture(f"performance_vs_num_rules_e{width}", title, text, grid.figure, table)


def measure_label(setting: str) -> str:
    """The name of the performance measure of a setting, for an axis."""
    return MEASURES[MEASURE_OF_SETTING[setting]].axis_label


def label_performance(axes: Any, kinds: list[str]) -> None:
    """Names the measure on the vertical axis of each row, for rows that are kinds."""
    for panel, kind in zip(axes, kinds, strict=True):
        panel.set_ylabel(measure_label(kind.split("\n")[1]), size=8.5)
