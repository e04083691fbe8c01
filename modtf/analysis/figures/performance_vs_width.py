"""Loss or error against width; one figure for in, one for out of distribution."""

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, Study, lines, means, register_figure
from modtf.analysis.figures.rows import performance


@register_figure("performance_vs_width")
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture in, one out of distribution."""
    rows = performance(study.results)
    if rows["width"].nunique() == 1:
        raise NothingToDraw(f"only one width, {rows['width'].iloc[0]}, was run")
    for where, part in rows.groupby("distribution", observed=True):
        name, title = f"performance_vs_width_{where}".replace(" ", "_"), f"Performance against width, {where}"
        yield means(study, part, lines, "width", name, title, row="panel", column="num_rules")
