"""The overall ranking as pies, the form of the paper."""

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.panels import panels
from modtf.analysis.figures.ranking import OVERALL, shares
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.style import Look
from modtf.analysis.study import Study


@register_figure("ranking_pies")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture: a pie for every field of candidates and distribution."""
    table, note = shares(study)
    table = table[table["kind"] == OVERALL]
    yield panels(
        _mark,
        table.assign(panel=table["field"] + ": " + table["distribution"].astype(str)),
        name="ranking_pies",
        title="Ranking, all cells together",
        note=note,
        column="panel",
        size=(2.1, 2.1),
    )


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    row = data[data["share"] > 0].set_index("variant")
    names = [name for name in looks if name in row.index]
    axes.pie(
        row["share"][names],
        colors=[looks[name].colour for name in names],
        autopct=lambda share: f"{share:.0f}%" if share >= 8 else "",
        startangle=90,
        counterclock=False,
        wedgeprops={"edgecolor": "white"},
        textprops={"color": "white", "size": 8.5},
    )
    for name in names:
        axes.bar(0, 0, color=looks[name].colour, label=name)  # for the legend
    axes.set_xlabel(f"n = {int(row['num_votes'].iloc[0])} votes")
