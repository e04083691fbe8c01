"""The figures of the paper's experiment alone: the form of its rankings, and gains over `modular`."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.base import Choice, Pictures
from modtf.analysis.figures.layout import Look, panels
from modtf.analysis.figures.pairs import pictures_against
from modtf.analysis.figures.ranking import OVERALL, shares
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.trained import TrainedModels


@register_figure("against_modular")
def against_modular(study: TrainedModels, choice: Choice) -> Pictures:
    """One picture per kind: what every variant and router gains, and what that costs."""
    return pictures_against(study, "modular")


@register_figure("ranking_pies")
def ranking_pies(study: TrainedModels, choice: Choice) -> Pictures:
    """One picture: a pie for every field of candidates and distribution."""
    table, text = shares(study)
    table = table[table["kind"] == OVERALL]
    table = table.assign(panel=table["field"] + ": " + table["distribution"].astype(str))
    yield panels(_pie, table, "ranking_pies", "Ranking, all cells together", text, None, "panel", (2.1, 2.1))


def _pie(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    shares = data.set_index("variant")["share"]
    names = [name for name in looks if shares.get(name, 0) > 0]
    style: dict[str, Any] = {"startangle": 90, "counterclock": False, "wedgeprops": {"edgecolor": "white"}}
    style |= {"textprops": {"color": "white"}, "autopct": lambda p: f"{p:.0f}%" * bool(p >= 8)}
    axes.pie(shares[names], colors=[looks[name].colour for name in names], **style)
    for name in names:
        axes.bar(0, 0, color=looks[name].colour, label=name)  # for the legend
    axes.set_xlabel(f"n = {int(data['num_votes'].iloc[0])} votes")
