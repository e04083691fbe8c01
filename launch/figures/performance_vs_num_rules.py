"""Loss or error against the number of rules, in and out of distribution; one figure per width."""

from collections.abc import Iterator

from modtf.launch.figures.base import Choice, NothingToDraw, Picture
from modtf.launch.figures.lines import draw_lines, performance_axis
from modtf.launch.figures.notes import lacks, note, points_lack
from modtf.launch.figures.panels import add_legend, make_grid
from modtf.launch.figures.style import kinds_in, variants_in, with_labels
from modtf.metrics import MEASURES
from modtf.results import CELL, Study, summarise
from modtf.results.performance import IN, MEASURE_OF_SETTING, OUT

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
    for width, part in summary.groupby("width"):
        kinds, variants = kinds_in(part), variants_in(part)
        conditions = [c for c in (IN, OUT) if c in set(part["condition"])]
        lacking = lacks(part) + points_lack(part, ["kind", "condition"], "num_rules", "R")
        text = note(study, part, f"width {width}", OUT_OF_DISTRIBUTION, "smaller is better", lacking=lacking)
        title = f"Performance against number of rules (width {width})"
        grid = make_grid(kinds, conditions, title, text, panel=(3.0, 1.9), x_label="Number of rules R")
        chosen = (("kind", kinds), ("condition", conditions))
        draw_lines(grid, part, *chosen, "num_rules", variants, performance_axis)
        label_performance(grid.axes[:, 0], kinds)
        add_legend(grid.figure, variants)
        table = part.drop(columns=["family", "kind"])
        yield Picture(f"performance_vs_num_rules_e{width}", title, text, grid.figure, table)


def label_performance(axes: list, kinds: list[str]) -> None:
    """Names the measure on the vertical axis of each row."""
    for panel, kind in zip(axes, kinds, strict=True):
        measure = MEASURES[MEASURE_OF_SETTING[kind.split("\n")[1]]]
        panel.set_ylabel(measure.axis_label, size=8.5)
