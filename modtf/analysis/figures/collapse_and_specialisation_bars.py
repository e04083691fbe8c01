"""Collapse and specialisation by variant, averaged over the numbers of rules too."""

from collections.abc import Iterator

from modtf.analysis.figures.averages import overview_and_widths
from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.marks import bars
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import activation
from modtf.analysis.study import Study


@register_figure("collapse_and_specialisation_bars")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture averaged over kinds, widths and R, then one per width with a row for each kind."""
    yield from overview_and_widths(
        study,
        activation(study.results),
        bars,
        ["measure", "label", "variant"],
        "0 is perfect",
        "random: modules picked at random",
        overview=None,
        detail="kind",
        random=True,
        column="label",
        name="collapse_and_specialisation_bars",
        title="Collapse and specialisation by variant",
    )
