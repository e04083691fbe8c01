"""Loss or error against width; one figure for in, one for out of distribution."""

from collections.abc import Iterator

from modtf.analysis.figures.averages import average
from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.marks import lines
from modtf.analysis.figures.panels import panels
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import out_of_distribution, performance
from modtf.analysis.performance import OUT
from modtf.analysis.study import Study


@register_figure("performance_vs_width")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture in, one out of distribution."""
    rows = performance(study.results)
    for where, part in rows.groupby("distribution", observed=True):
        said = [out_of_distribution(rows)] if where == OUT else []
        table, note = average(
            study, part, ["panel", "kind", "measure", "num_rules", "width", "variant"], *said
        )
        yield panels(
            lines("width"),
            table,
            name=f"performance_vs_width_{str(where).replace(' ', '_')}",
            title=f"Performance against width, {where}",
            note=note,
            row="panel",
            column="num_rules",
            x_label="Width",
        )
