"""Collapse and specialisation by variant, with random activation, averaged over the numbers of rules too."""

from modtf.analysis.figures import Choice, Pictures, Study, bars, overview_and_widths, register_figure
from modtf.analysis.figures.collapse_and_specialisation_vs_num_rules import SAID
from modtf.analysis.figures.rows import activation

NAME, TITLE = "collapse_and_specialisation_bars", "Collapse and specialisation by variant"


@register_figure(NAME)
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture averaged over kinds, widths and R, then one per width with a row for each kind."""
    drawn = (activation(study.results), bars, None, NAME, TITLE, *SAID)
    yield from overview_and_widths(study, *drawn, overview=None, detail="kind", column="label")
