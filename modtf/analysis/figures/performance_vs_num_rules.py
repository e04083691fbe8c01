"""Loss or error against the number of rules, in and out of distribution: the paper's main figure."""

from collections.abc import Iterator

from modtf.analysis.figures.averages import overview_and_widths
from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.marks import lines
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import out_of_distribution, performance, with_measure
from modtf.analysis.study import Study


@register_figure("performance_vs_num_rules")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture by architecture, averaged over widths and options; then one per width."""
    rows = performance(study.results)
    rows["panel"] = with_measure(rows, "setting", "distribution")
    yield from overview_and_widths(
        study,
        rows,
        lines("num_rules"),
        ["panel", "measure", "num_rules", "variant"],
        out_of_distribution(rows),
        overview="title",
        detail="family",
        column="panel",
        name="performance_vs_num_rules",
        title="Performance against number of rules",
        x_label="Number of rules R",
    )
