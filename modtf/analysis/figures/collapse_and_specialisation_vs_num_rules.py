"""Collapse and specialisation against the number of rules, with random activation."""

from modtf.analysis.figures import Choice, Pictures, Study, lines, overview_and_widths, register_figure
from modtf.analysis.figures.rows import activation

NAME = "collapse_and_specialisation_vs_num_rules"
TITLE = "Collapse and specialisation against number of rules"
SAID = ("smaller is better unless said", "random: modules picked at random")


@register_figure(NAME)
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture averaged over kinds and widths, then one per width with a row for each kind."""
    drawn = (activation(study.results), lines, "num_rules", NAME, TITLE, *SAID)
    yield from overview_and_widths(study, *drawn, overview=None, detail="kind", column="label")
