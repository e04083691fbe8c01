"""The same task and seed with one variant and the next: by how much is it better?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, Study, note, panels, register_figure
from modtf.analysis.figures.averages import counts, sizes
from modtf.analysis.figures.marks import whiskers
from modtf.analysis.figures.rows import performance
from modtf.analysis.figures.style import Look
from modtf.analysis.labels import with_kinds
from modtf.analysis.paired import PAIRS, compare_pairs
from modtf.analysis.performance import IN
from modtf.results import KIND

BY = [*KIND, "num_rules", "measure", "condition", "distribution"]
SHOWN = ["advantage", "advantage_low", "advantage_high"]
NAME, TITLE = "paired_comparisons", "Paired comparisons: relative advantage"
SAID = (
    "difference of loss or error on the same task and seed, as a share of the larger of both (right of 0: "
    "the first is better); filled: in, hollow: out of distribution"
)


@register_figure(NAME)
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture: relative advantage by kind and number of rules, a column per pair."""
    rows = performance(study.results)
    table = compare_pairs(rows, by=BY, over=["width"], level=study.level)
    if table.empty:
        raise NothingToDraw("no task and seed was run with two variants that are compared")
    table = with_kinds(table).assign(pair=table["first"] + " against " + table["second"])
    table["variant"] = pd.Categorical(table["first"], rows["variant"].cat.categories)  # whose look it has
    absent = [f"no {' against '.join(pair)}" for pair in PAIRS if pair[0] not in set(table["first"])]
    words = [SAID, counts(study, table, "pair"), *sizes(rows, BY), f"checkpoint {study.checkpoint}"]
    mark = partial(_mark, limit=min(1.05, 1.1 * table[SHOWN].abs().max().max() + 0.01))
    size = (2.4, 0.45 + 0.26 * table["num_rules"].nunique())
    yield panels(mark, table, NAME, TITLE, note(words, absent), "kind", "pair", size)


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], limit: float) -> None:
    rules, tint = sorted(data["num_rules"].unique()), looks[data["variant"].iloc[0]].colour
    for where, rows in data.groupby("distribution", observed=True):
        y = [rules.index(number) + (-0.14 if where == IN else 0.14) for number in rows["num_rules"]]
        style: dict[str, Any] = {
            "color": tint,
            "markerfacecolor": tint if where == IN else "white",
            "markersize": 4.5,
        }
        style |= {"linestyle": "", "marker": "o", "capsize": 2, "elinewidth": 1}
        axes.errorbar(rows["advantage"], y, xerr=whiskers(rows, *SHOWN), **style)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlim=(-limit, limit), ylim=(len(rules) - 0.5, -0.5))
    axes.set_yticks(range(len(rules)), [f"R = {number}" for number in rules])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0%}" if abs(value) > 1e-9 else "0")
    axes.locator_params(axis="x", nbins=4)
