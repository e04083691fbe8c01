"""Loss or error against the number of rules, in and out of distribution: the paper's main figure."""

from modtf.analysis.figures import Choice, Pictures, Study, lines, overview_and_widths, register_figure
from modtf.analysis.figures.rows import performance

NAME, TITLE = "performance_vs_num_rules", "Performance against number of rules"


@register_figure(NAME)
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture by architecture, averaged over widths and options; then one per width."""
    drawn = (performance(study.results), lines, "num_rules", NAME, TITLE)
    yield from overview_and_widths(study, *drawn, overview="title", detail="family", column="where")
