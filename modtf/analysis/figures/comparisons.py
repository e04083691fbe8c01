"""Comparisons in pairs, and rankings by votes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import counts, lacking, lost, note, performance, sizes
from modtf.analysis.figures.layout import Look, dots, named_rows, panels
from modtf.analysis.figures.registry import HELPS, Choice, register_figure
from modtf.analysis.intervals import WEIGHTS, have_other_tasks
from modtf.analysis.labels import known_variants, with_kinds
from modtf.analysis.learned import only_learned
from modtf.analysis.pairs import (
    NO_CONDITION,
    SCORED,
    VOTE,
    against,
    as_ratio,
    compare_pairs,
    match_members,
    next_informed,
    rank,
    votes,
)
from modtf.analysis.rows import IN
from modtf.analysis.trained import TrainedModels
from modtf.metrics import MEASURES
from modtf.pages.pictures import NothingToDraw, Pictures
from modtf.tasks.families import FAMILIES

ADVANTAGE = ["advantage", "advantage_low", "advantage_high"]
TIMES = (
    "loss or error of the first as a multiple of the second's, on the same task and seed; right of x1: the "
    "first is better; filled: in distribution, hollow: out of distribution"
)
AGAINST = (
    "right of the line: better than {} on the same task and seed; losses and errors as a multiple of its "
    "value, measures as differences in their unit; filled: different after Holm's correction for the "
    "variants of a panel; long intervals end at the panel's edge"
)
LONGEST = 2.0  # the limit of an axis, as a multiple of the largest mean
OVERALL = "overall"
COUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@register_figure(
    "paired_comparisons",
    question=HELPS,
    shows="The loss or error of a variant as a multiple of that of the next less informed variant, "
    "on the same task and seed.",
)
def paired_comparisons(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture: relative advantage by task type and number of rules, a column per pair."""
    rows = performance(study.results)
    table = compare_pairs(rows, by=SCORED, over=["width"], level=study.level)
    if table.empty:
        raise NothingToDraw(
            "no two variants were run on the same task and seed; give both the same --tasks and --seeds"
        )
    table = with_kinds(table).assign(pair=table["first"] + " against " + table["second"])
    table["variant"] = pd.Categorical(table["first"], rows["variant"].cat.categories)  # sets the look
    absent = [f"no {' against '.join(p)}" for p in next_informed(rows) if p[0] not in set(table["first"])]
    matched, point = _matched(rows, next_informed(rows)), [*SCORED, "pair"]
    absent += lost(table) + [WEIGHTS] * have_other_tasks(matched, point, ["width"])
    averaged = sizes(matched, point)
    words = [TIMES, counts(study, table, "pair"), *averaged, f"checkpoint {study.checkpoint}"]
    limit = min(1.05, 1.1 * table[ADVANTAGE].abs().max().max() + 0.01)
    size = (2.4, 0.45 + 0.26 * table["num_rules"].nunique())
    named = ("paired_comparisons", "Paired comparisons: the first over the second", note(words, absent))
    yield panels(partial(_by_rules, limit=limit), table, *named, "kind", "pair", size)


def _matched(rows: pd.DataFrame, pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return the models of every pair that share task and seed, as `match_members` does."""
    parts = [match_members(rows, *pair).assign(pair=" against ".join(pair)) for pair in pairs]
    return with_kinds(pd.concat(parts))


def _ratio(share: float) -> str:
    """Return the tick of an advantage, 0.5 as "x0.5" and -0.5 as "x2"."""
    return f"x{as_ratio(share):.2g}"


def _by_rules(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], limit: float) -> None:
    rules, tint = sorted(data["num_rules"].unique()), looks[data["variant"].iloc[0]].colour
    for where, rows in data.groupby("distribution", observed=True):
        y = [rules.index(number) + (-0.14 if where == IN else 0.14) for number in rows["num_rules"]]
        dots(axes, rows, y, Look(tint, "o"), *ADVANTAGE, hollow=where != IN)
    named_rows(axes, [f"R = {number}" for number in rules], limit, _ratio, inside=True)


@register_figure(
    "against_modular",
    question=HELPS,
    shows="How each variant differs from `modular` on the same task and seed.",
)
def against_modular(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture per task type: a row for every variant, a column for every score, a panel per R."""
    baseline = "modular"
    if baseline not in study.variants:
        raise NothingToDraw(
            f"{baseline}, the variant to compare with, was not run; --variant={baseline} runs it"
        )
    table = against(study.results, baseline, study.level).dropna(subset="gain")
    if table.empty:
        raise NothingToDraw(
            f"no variant was run on the same task and seed as {baseline}; give both the same --tasks and "
            "--seeds"
        )
    table["score"] = [_score(row) for row in table.itertuples()]
    others = [(name, baseline) for name in study.variants if name != baseline]
    matched = _matched(study.performance, others)
    for kind, part in table.groupby("kind", observed=True):
        paired, point = matched[matched["kind"] == kind], ["kind", "num_rules", "distribution", "pair"]
        averaged = sizes(paired, point)
        words = [AGAINST.format(baseline), counts(study, part, "pair"), *averaged]
        scored = part[part["distribution"].astype(str) != NO_CONDITION]
        missing = lacking(scored, ["num_rules", "score"])
        missing += [WEIGHTS] * have_other_tasks(paired, point, ["width"])
        text = note([*words, f"checkpoint {study.checkpoint}"], missing)
        variants = list(part["variant"].cat.remove_unused_categories().cat.categories)
        mark = partial(_by_variant, variants=variants, reach=_reach(part), alpha=1 - study.level)
        name = f"against_{baseline}" + f"_{kind}".replace(" ", "_").lower() * (table["kind"].nunique() > 1)
        title, size = f"Every variant against {baseline}, {kind}", (1.75, 0.5 + 0.2 * len(variants))
        yield panels(mark, part, name, title, text, "num_rules", "score", size)


def _score(row: Any) -> str:
    """Return the name of a score, in one line and another: "Loss: in distribution", "Alignment: encoder"."""
    distribution, label = str(row.distribution), MEASURES[row.measure].axis_label
    second = getattr(row, "place", "") if distribution == NO_CONDITION else distribution
    return f"{label}: {second}" if second else label


def _reach(table: pd.DataFrame) -> dict[str, float]:
    """Return the extent of every score's axis on both sides."""
    means = table["gain"].abs().groupby(table["score"]).max()
    ends = table[["low", "high"]].abs().max(axis=1).groupby(table["score"]).max().fillna(0)
    return {name: 1.1 * max(mean, min(ends[name], LONGEST * mean)) + 0.01 for name, mean in means.items()}


def _by_variant(
    axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], variants: list[str], reach: Any, alpha: float
) -> None:
    for name, one in data.groupby("variant", observed=True):
        sure = one["p_corrected"].iloc[0] <= alpha
        dots(axes, one, [variants.index(name)], looks[name], "gain", "low", "high", hollow=not sure)
    is_share = data["distribution"].iloc[0] != NO_CONDITION
    named_rows(axes, variants, reach[data["score"].iloc[0]], _ratio if is_share else "{:+.2g}".format)


@register_figure(
    "ranking",
    question=HELPS,
    shows="The share of tasks on which each variant does best.",
)
def ranking(study: TrainedModels, choice: Choice) -> Pictures:
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
    most, tables, left_out = len(rows[list(VOTE)].drop_duplicates()), [], []
    everyone, reference = known_variants(rows["arch"].unique()), FAMILIES[rows["arch"].iloc[0]].reference
    two = [everyone[0], reference]
    fields = {f"all {COUNTS[len(everyone)] if len(everyone) < len(COUNTS) else ''}".strip(): everyone}
    fields |= {f"{reference} against {everyone[0]}": two} if len(set(two)) > 1 else {}
    for field, candidates in fields.items():
        cast = votes(rows, candidates).dropna(subset="vote")
        absent = most - len(cast[list(VOTE)].drop_duplicates())
        left_out += (
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
    words += [f"ties are shared; n: votes; {models} models", *sizes(voting, [*VOTE, "kind"])]
    return table, note([*words, f"checkpoint {study.checkpoint}"], left_out)


def _voting(rows: pd.DataFrame, candidates: Sequence[str]) -> pd.DataFrame:
    """Return the rows behind the votes: of tasks and seeds with every candidate, none diverged."""
    rows = rows[rows["variant"].isin(candidates)]
    found = rows.groupby([*VOTE, "seed"], observed=True)["variant"].transform("nunique")
    rows = rows[found == len(candidates)]
    finite = np.isfinite(rows["value"]).groupby([rows[name] for name in VOTE], observed=True)
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
