"""Collapse and specialisation by variant and against the number of rules, with random activation."""

from typing import Any

from modtf.analysis.figures.averages import overview_and_widths
from modtf.analysis.figures.base import Choice, Pictures
from modtf.analysis.figures.marks import bars, lines
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import activation
from modtf.analysis.trained import TrainedModels

TITLE = "Collapse and specialisation"
SAID = ("smaller is better unless said", "random: modules picked at random")
PANELS: dict[str, Any] = {"overview": None, "detail": "kind", "column": "label"}


@register_figure("collapse_and_specialisation_vs_num_rules")
def against_rules(study: TrainedModels, choice: Choice) -> Pictures:
    """One picture averaged over kinds and widths, then one per width with a row for each kind."""
    name, title = "collapse_and_specialisation_vs_num_rules", f"{TITLE} against number of rules"
    drawn = (activation(study.results), lines, "num_rules", name, title, *SAID)
    yield from overview_and_widths(study, *drawn, **PANELS)


@register_figure("collapse_and_specialisation_bars")
def by_variant(study: TrainedModels, choice: Choice) -> Pictures:
    """One picture averaged over kinds, widths and R, then one per width with a row for each kind."""
    drawn = (activation(study.results), bars, None, "collapse_and_specialisation_bars", f"{TITLE} by variant")
    yield from overview_and_widths(study, *drawn, *SAID, **PANELS)
