"""Paired comparisons on the same task and seed: with the next less informed variant, or with a baseline."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import counts, lacking, lost, note, performance, sizes
from modtf.analysis.figures.layout import Look, panels
from modtf.analysis.figures.marks import dots, named_rows
from modtf.analysis.figures.registry import HELPS, Choice, register_figure
from modtf.analysis.intervals import WEIGHTS, have_other_tasks
from modtf.analysis.labels import with_kinds
from modtf.analysis.pairs import NO_CONDITION, SCORED, against, compare_pairs, match_members, next_informed
from modtf.analysis.ratios import as_ratio
from modtf.analysis.rows import IN
from modtf.analysis.trained import TrainedModels
from modtf.metrics import MEASURES
from modtf.pages.pictures import NothingToDraw, Pictures

ADVANTAGE = ["advantage", "advantage_low", "advantage_high"]
SAID = (
    "loss or error of the first as a multiple of the second's, on the same task and seed; right of x1: the "
    "first is better; filled: in distribution, hollow: out of distribution"
)
AGAINST = (
    "right of the line: better than {} on the same task and seed; losses and errors as a multiple of its "
    "value, measures as differences in their unit; filled: different after Holm's correction for the "
    "variants of a panel; long intervals end at the panel's edge"
)
LONGEST = 2.0  # the limit of an axis, as a multiple of the largest mean


@register_figure(
    "paired_comparisons",
    question=HELPS,
    shows="The loss or error of a variant as a multiple of that of the next less informed variant, "
    "on the same task and seed.",
)
def draw(study: TrainedModels, choice: Choice) -> Pictures:
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
    words = [SAID, counts(study, table, "pair"), *averaged, f"checkpoint {study.checkpoint}"]
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
