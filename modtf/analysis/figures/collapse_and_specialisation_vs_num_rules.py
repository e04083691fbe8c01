"""Collapse and specialisation against the number of rules, with random activation."""

from collections.abc import Iterator

from modtf.analysis.figures.averages import overview_and_widths
from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.marks import lines
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import activation
from modtf.analysis.study import Study


@register_figure("collapse_and_specialisation_vs_num_rules")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture averaged over kinds and widths, then one per width with a row for each kind."""
    yield from overview_and_widths(
        study,
        activation(study.results),
        lines("num_rules"),
        ["measure", "label", "num_rules", "variant"],
        "0 is perfect",
        "random: modules picked at random",
        overview=None,
        detail="kind",
        random=True,
        column="label",
        name="collapse_and_specialisation_vs_num_rules",
        title="Collapse and specialisation against number of rules",
        x_label="Number of rules R",
    )
