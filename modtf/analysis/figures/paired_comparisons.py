"""The same task and seed with one variant and the next: by how much is it better?"""

from collections.abc import Mapping
from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import counts, note, sizes
from modtf.analysis.figures.base import Choice, NothingToDraw, Pictures
from modtf.analysis.figures.layout import panels
from modtf.analysis.figures.marks import dots, named_rows
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import performance
from modtf.analysis.figures.style import Look
from modtf.analysis.labels import with_kinds
from modtf.analysis.pairs import SCORED, compare_pairs, next_informed
from modtf.analysis.rows import IN
from modtf.analysis.trained import TrainedModels

SHOWN = ["advantage", "advantage_low", "advantage_high"]
SAID = (
    "difference of loss or error on the same task and seed, as a share of the larger of both (right of 0: "
    "the first is better); filled: in, hollow: out of distribution"
)


@register_figure("paired_comparisons")
def draw(study: TrainedModels, choice: Choice) -> Pictures:
    """One picture: relative advantage by kind and number of rules, a column per pair."""
    rows = performance(study.results)
    table = compare_pairs(rows, by=SCORED, over=["width"], level=study.level)
    if table.empty:
        raise NothingToDraw("no task and seed was run with two variants that are compared")
    table = with_kinds(table).assign(pair=table["first"] + " against " + table["second"])
    table["variant"] = pd.Categorical(table["first"], rows["variant"].cat.categories)  # whose look it has
    pairs = next_informed(rows)
    absent = [f"no {' against '.join(pair)}" for pair in pairs if pair[0] not in set(table["first"])]
    words = [SAID, counts(study, table, "pair"), *sizes(rows, SCORED), f"checkpoint {study.checkpoint}"]
    limit = min(1.05, 1.1 * table[SHOWN].abs().max().max() + 0.01)
    size = (2.4, 0.45 + 0.26 * table["num_rules"].nunique())
    title = "Paired comparisons: relative advantage"
    mark, text = partial(_mark, limit=limit), note(words, absent)
    yield panels(mark, table, "paired_comparisons", title, text, "kind", "pair", size)


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], limit: float) -> None:
    rules, tint = sorted(data["num_rules"].unique()), looks[data["variant"].iloc[0]].colour
    for where, rows in data.groupby("distribution", observed=True):
        y = [rules.index(number) + (-0.14 if where == IN else 0.14) for number in rows["num_rules"]]
        dots(axes, rows, y, Look(tint, "o"), *SHOWN, hollow=where != IN)
    named_rows(axes, [f"R = {number}" for number in rules], limit, inside=True)
