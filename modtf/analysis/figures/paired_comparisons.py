"""The same task and seed with one variant and the next: by how much is it better?"""

from collections.abc import Iterator, Mapping
from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import counts, note, sizes
from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.marks import whiskers
from modtf.analysis.figures.panels import panels
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import out_of_distribution, performance
from modtf.analysis.figures.style import Look
from modtf.analysis.labels import with_kinds
from modtf.analysis.paired import PAIRS, compare_pairs
from modtf.analysis.performance import IN
from modtf.analysis.study import Study
from modtf.results import KIND

SHOWN = ("advantage", "advantage_low", "advantage_high")
BY = [*KIND, "num_rules", "measure", "condition", "distribution"]


@register_figure("paired_comparisons")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture: relative advantage by kind and number of rules, a column per pair."""
    rows = performance(study.results)
    table = compare_pairs(rows, by=BY, over=["width"], level=study.level)
    if table.empty:
        raise NothingToDraw("no task and seed was run with two variants that are compared")
    table = with_kinds(table)
    table["variant"] = pd.Categorical(
        table["first"], rows["variant"].cat.categories
    )  # of whose look points are
    table["pair"] = table["first"] + " against " + table["second"]
    absent = [f"no {first} against {second}" for first, second in PAIRS if first not in set(table["first"])]
    said = [
        "by which share the first's loss or error is below the second's on the same task and seed (right of "
        "0: the first is better); filled: in, hollow: out of distribution",
        counts(study, table, "pair"),
        *sizes(rows, BY),
        out_of_distribution(rows),
    ]
    furthest = float(table[[*SHOWN]].abs().max().max())
    yield panels(
        partial(_mark, limit=min(1.05, 1.1 * furthest + 0.01)),
        table,
        name="paired_comparisons",
        title="Paired comparisons",
        note=note(study, said, absent),
        row="kind",
        column="pair",
        size=(2.4, 0.45 + 0.26 * table["num_rules"].nunique()),
        x_label="Relative advantage",
    )


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], limit: float) -> None:
    rules = sorted(data["num_rules"].unique())
    tint = looks[data["variant"].iloc[0]].colour
    for where, rows in data.groupby("distribution", observed=True):
        errors = whiskers(rows, *SHOWN)
        y = [rules.index(number) + (-0.14 if where == IN else 0.14) for number in rows["num_rules"]]
        style = {"color": tint, "markerfacecolor": tint if where == IN else "white", "markersize": 4.5}
        axes.errorbar(
            rows["advantage"], y, xerr=errors, linestyle="", marker="o", capsize=2, elinewidth=1, **style
        )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlim=(-limit, limit), ylim=(len(rules) - 0.5, -0.5))
    axes.set_yticks(range(len(rules)), [f"R = {number}" for number in rules])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0%}" if abs(value) > 1e-9 else "0")
    axes.locator_params(axis="x", nbins=4)
