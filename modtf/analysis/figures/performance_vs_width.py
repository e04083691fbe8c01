"""Loss or error against width; one figure for in, one for out of distribution."""

from collections.abc import Iterator

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.lines import draw_lines, performance_axis
from modtf.analysis.figures.notes import lacks, note, points_lack
from modtf.analysis.figures.panels import add_legend, make_grid
from modtf.analysis.figures.performance_vs_num_rules import OUT_OF_DISTRIBUTION, label_performance
from modtf.analysis.figures.style import kinds_in, variants_in, with_labels
from modtf.results import CELL, Study, summarise
from modtf.analysis.performance import IN


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per condition."""
    rows = study.performance
    if rows.empty:
        raise NothingToDraw("there is no loss or error at scale 1 and the training length")
    summary = summarise(
        rows, [*CELL, "measure", "condition"], ["scale", "seq_len"], bootstrap=study.bootstrap
    )
    for condition, part in with_labels(summary).groupby("condition"):
        kinds, variants = kinds_in(part), variants_in(part)
        rules = sorted(part["num_rules"].unique())
        lacking = lacks(part) + points_lack(part, ["kind", "num_rules"], "width", "width")
        where = condition if condition == IN else OUT_OF_DISTRIBUTION
        text = note(study, part, where, "smaller is better", lacking=lacking)
        title = f"Performance against width, {condition}"
        columns = [f"R = {r}" for r in rules]
        grid = make_grid(kinds, columns, title, text, panel=(2.1, 1.7), x_label="Width", gaps=(0.45, 0.4))
        draw_lines(grid, part, ("kind", kinds), ("num_rules", rules), "width", variants, performance_axis)
        label_performance(grid.axes[:, 0], kinds)
        add_legend(grid.figure, variants)
        name = f"performance_vs_width_{'in' if condition == IN else 'out_of'}_distribution"
        yield Picture(name, title, text, grid.figure, part.drop(columns=["family", "kind"]))
