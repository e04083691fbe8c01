"""The overall ranking as pies, the form of the paper."""

from collections.abc import Iterator

from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.panels import add_legend, empty_panel, make_grid
from modtf.analysis.figures.ranking import FIELDS, OVERALL, ranking_note, shares
from modtf.analysis.figures.style import colour, variants_in
from modtf.results import Study
from modtf.analysis.performance import IN, OUT


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture: a pie for every field and condition."""
    table = shares(study)
    table = table[table["kind"] == OVERALL]
    text = ranking_note(study, table)
    cells = [
        (f, c) for f in FIELDS for c in (IN, OUT) if ((table["field"] == f) & (table["condition"] == c)).any()
    ]
    labels = [f"{field}\n{condition}" for field, condition in cells]
    grid = make_grid(
        [""], labels, "Ranking, all cells together", text, panel=(1.9, 1.9), left=0.3, gaps=(0.35, 0.3)
    )
    for place, (field, condition) in enumerate(cells):
        axes = grid.panel(0, place)
        rows = table[(table["field"] == field) & (table["condition"] == condition) & (table["share"] > 0)]
        rows = rows.set_index("variant").reindex(variants_in(rows))
        empty_panel(axes, "")
        axes.set_title(labels[place], size=8.5)
        wedges = axes.pie(
            rows["share"],
            colors=[colour(name, list(rows.index)) for name in rows.index],
            autopct=lambda share: f"{share:.0f}%" if share >= 5 else "",
            startangle=90,
            counterclock=False,
            radius=1.1,
            wedgeprops={"edgecolor": "white"},
            textprops={"color": "white", "size": 8.5},
        )
        assert wedges
        axes.set_xlabel(f"n = {int(rows['num_votes'].iloc[0])} votes", size=8)
    add_legend(grid.figure, variants_in(table), bars=True)
    yield Picture("ranking_pies", "Ranking, all cells together", text, grid.figure, table)
