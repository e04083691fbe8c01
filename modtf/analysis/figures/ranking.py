"""The ranking figure: the shares of the votes, overall and by task type."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import note, performance, sizes
from modtf.analysis.figures.layout import Look, panels
from modtf.analysis.figures.registry import HELPS, Choice, register_figure
from modtf.analysis.labels import known_variants, with_kinds
from modtf.analysis.learned import only_learned
from modtf.analysis.ranking import UNIT, rank, votes
from modtf.analysis.trained import TrainedModels
from modtf.pages.pictures import NothingToDraw, Pictures
from modtf.tasks.families import FAMILIES

OVERALL = "overall"
COUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@register_figure(
    "ranking",
    question=HELPS,
    shows="The share of tasks on which each variant does best.",
)
def draw(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture: bars of shares, a panel for each field of candidates and distribution."""
    table, text = shares(study)
    size = (4.9, 0.7 + 0.24 * table["kind"].nunique())
    yield panels(_mark, table, "ranking", "Ranking", text, row="field", column="distribution", size=size)


@register_figure(
    "ranking_pies",
    question=HELPS,
    shows="The share of all tasks on which each variant does best.",
)
def ranking_pies(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture: a pie for every field of candidates and distribution."""
    table, text = shares(study)
    table = table[table["kind"] == OVERALL]
    table = table.assign(panel=table["field"] + ", " + table["distribution"].astype(str))
    if table["share"].isin([0, 1]).all():
        raise NothingToDraw("one variant has all votes in every pie; see the figure 'ranking'")
    yield panels(_pie, table, "ranking_pies", "Ranking, all cells together", text, None, "panel", (2.1, 2.1))


def shares(study: TrainedModels) -> tuple[pd.DataFrame, str]:
    """Return field, distribution, kind ("overall" first), variant, share, low, high, num_votes; and a note.

    Raises `NothingToDraw` if no task was run with all candidates of any field."""
    rows = only_learned(performance(study.results), study)
    if rows.empty:
        raise NothingToDraw("no variant has learned")
    most, tables, lacking = len(rows[list(UNIT)].drop_duplicates()), [], []
    everyone, reference = known_variants(rows["arch"].unique()), FAMILIES[rows["arch"].iloc[0]].reference
    two = [everyone[0], reference]
    fields = {f"all {COUNTS[len(everyone)] if len(everyone) < len(COUNTS) else ''}".strip(): everyone}
    fields |= {f"{reference} against {everyone[0]}": two} if len(set(two)) > 1 else {}
    for field, candidates in fields.items():
        cast = votes(rows, candidates).dropna(subset="vote")
        absent = most - len(cast[list(UNIT)].drop_duplicates())
        lacking += (
            [f"{absent} of {most} votes on '{field}' are left out because a candidate is missing or diverged"]
            if absent
            else []
        )
        if len(cast):
            overall = rank(cast, ["distribution"], study.level).assign(kind=OVERALL)
            by_kind = rank(with_kinds(cast), ["distribution", "kind"], study.level).astype({"kind": str})
            tables.append(pd.concat([overall, by_kind]).assign(field=field))
    if not tables:
        raise NothingToDraw(
            f"no task was run with both {' and '.join(reversed(two))}; run both by --variant={','.join(two)}"
        )
    table = pd.concat(tables, ignore_index=True)
    if table["num_votes"].max() == 1:
        raise NothingToDraw(
            "only one task was run, and one vote is not a ranking; run more tasks, such as --tasks=5"
        )
    table["variant"] = pd.Categorical(table["variant"], rows["variant"].cat.categories)
    voting = pd.concat([_voting(rows, candidates) for candidates in fields.values()])
    models = len(voting[["folder", "data_seed", "seed"]].drop_duplicates())
    words = ["every task of every cell gives one vote to its best variant, by the mean over seeds"]
    words += [f"ties are shared; n: votes; {models} models", *sizes(voting, [*UNIT, "kind"])]
    return table, note([*words, f"checkpoint {study.checkpoint}"], lacking)


def _voting(rows: pd.DataFrame, candidates: Sequence[str]) -> pd.DataFrame:
    """Return the rows behind the votes: of tasks and seeds with every candidate, none diverged."""
    rows = rows[rows["variant"].isin(candidates)]
    found = rows.groupby([*UNIT, "seed"], observed=True)["variant"].transform("nunique")
    rows = rows[found == len(candidates)]
    finite = np.isfinite(rows["value"]).groupby([rows[name] for name in UNIT], observed=True)
    return rows[finite.transform("all")]


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    kinds = list(data["kind"].unique())
    for place, kind in enumerate(kinds):
        row, start = data[data["kind"] == kind].set_index("variant"), 0.0
        for name in (name for name in looks if name in row.index):
            share, tint = float(row["share"][name]), looks[name].colour
            bar = axes.barh(place, share, 0.74, start, label=name, color=tint, edgecolor="white")
            axes.bar_label(bar, [f"{share:.0%}" * (share >= 0.1)], label_type="center", color="white", size=8)
            start += share
        axes.text(1.015, place, f"n = {int(row['num_votes'].iloc[0])}", va="center", size=7.5)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set(xlim=(0, 1), ylim=(len(kinds) - 0.5, -0.5))
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.grid(False)


def _pie(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    shares = data.set_index("variant")["share"]
    names = [name for name in looks if shares.get(name, 0) > 0]
    style: dict[str, Any] = {"startangle": 90, "counterclock": False, "wedgeprops": {"edgecolor": "white"}}
    style |= {"textprops": {"color": "white"}, "autopct": lambda p: f"{p:.0f}%" * bool(p >= 8)}
    axes.pie(shares[names], colors=[looks[name].colour for name in names], **style)
    for name in names:
        axes.bar(0, 0, color=looks[name].colour, label=name)  # for the legend
    axes.set_xlabel(f"n = {int(data['num_votes'].iloc[0])} votes")
