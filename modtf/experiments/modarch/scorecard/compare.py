"""Your router compared with the reference results, and its place among fixed routings."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from modtf.analysis.intervals import intervals
from modtf.analysis.labels import CHECKPOINT_WORDS
from modtf.analysis.pairs import against, as_ratio
from modtf.analysis.rows import IN, OUT, activation_rows
from modtf.analysis.study import Study
from modtf.analysis.table import SHORT
from modtf.experiments.modarch.fixed_routing import CLAMPED, WAYS, routing_of
from modtf.experiments.modarch.studies.scorecard import MEASURES, ORACLE
from modtf.pages.text import in_a_row, interval_words, short_number

LOSSES = {IN: "loss in", OUT: "loss out"}
NAMES = {name: SHORT.get(name, name.replace("_", " ")) for name in MEASURES}
VERDICTS = ("better", "worse", "undecided")
Describe = Callable[[Study, str], list[str]]


def scored(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the category `score`: "loss in", "loss out", and the table names of the activation measures."""
    names = frame["distribution"].astype(object).map(LOSSES)
    names = names.fillna(frame["measure"].astype(object).map(NAMES))
    return frame.assign(score=pd.Categorical(names, [*LOSSES.values(), *NAMES.values()], ordered=True))


def scores(study: Study) -> pd.DataFrame:
    """Return the rows that a scorecard shows, `scored`."""
    return scored(pd.concat([study.performance, activation_rows(study.results)]))


def differences(study: Study, own: str) -> pd.DataFrame:
    """Return how much better your router is than every row except fixed routing, paired over tasks.

    Returns:
        kind, score, variant, gain, low, high (positive: your router is better; the gain of a loss is relative
        to the larger of both), p, p_corrected (Holm, over the rows of a score), num_tasks, verdict.
    """
    table = scored(against(study.results[study.results["router"] != CLAMPED], own, study.level))
    table["gain"], table["low"], table["high"] = -table["gain"], -table["high"], -table["low"]
    sure = table["p_corrected"] <= 1 - study.level
    table["verdict"] = np.where(sure, np.where(table["gain"] > 0, "better", "worse"), "undecided")
    columns = ["kind", "score", "variant", "gain", "low", "high", "p", "p_corrected", "num_tasks", "verdict"]
    return table[columns].sort_values(["kind", "score"], kind="stable")


def in_brief(quantities: pd.DataFrame) -> pd.DataFrame:
    """Return the `differences` of a task type: a row for every variant, a column for every score.

    Losses are multiples of the variant's loss, measures are differences."""
    words = [
        "-"  # no pair has both
        if math.isnan(row.gain)
        else f"{row.verdict} {short_number(as_ratio(row.gain))} times"
        if row.score in LOSSES.values()
        else f"{row.verdict} {row.gain:+.2g}"
        for row in quantities.itertuples()
    ]
    table = quantities.assign(words=words).pivot(index="variant", columns="score", values="words")
    return table.astype(object).fillna("").rename_axis(columns=None).reset_index()


def places(study: Study) -> pd.DataFrame:
    """Return the mlp models compared with fixed routing, except models that lack alignment or diverged.

    A task whose oracle diverged is left out.

    Returns:
        variant, distribution, quantity, mean, low, high, ... The quantities are "alignment"; "cost", the loss
        as a multiple of the oracle's on the same task; "weighted" and "sampled", the cost of fixed routing at
        this alignment, interpolated task by task from the oracle at 0; "beyond weighted" and "beyond
        sampled", the model's cost as a multiple of those. Means of multiples are geometric.
    """
    model = ["variant", "router", "model_options", "data_seed"]
    results, performance = (
        rows[(rows["arch"] == "mlp") & (rows["setting"] == "regression")]
        for rows in (study.results, study.performance)
    )
    aligned = results[results["measure"] == "alignment"][[*model, "value"]]
    losses = performance[np.isfinite(performance["value"])][[*model, "distribution", "value"]]
    aligned_losses = losses.merge(aligned.rename(columns={"value": "alignment"}), on=model)
    rows = []
    for (where, task), part in aligned_losses.groupby(["distribution", "data_seed"], observed=True):
        oracle = part.loc[part["variant"] == ORACLE, "value"]
        if oracle.empty:
            continue
        part = part.assign(cost=np.log(part["value"]) - np.log(oracle.item()))
        fixed = part[part["router"] == CLAMPED]
        curves = {way: [(0.0, 0.0)] for way in WAYS.values()}
        for options, cost in zip(fixed["model_options"].astype(str), fixed["cost"], strict=True):
            _, amount, sampled = routing_of(options)
            curves[WAYS[sampled]].append((amount, cost))
        for variant, router, cost, at in part[["variant", "router", "cost", "alignment"]].to_numpy():
            quantities = {"alignment": at, "cost": cost}
            for way, curve in curves.items() if router != CLAMPED else ():
                quantities[way] = float(np.interp(at, *np.array(sorted(curve)).T))
                quantities[f"beyond {way}"] = cost - quantities[way]
            rows += [(variant, where, task, *item) for item in quantities.items()]
    by = ["variant", "distribution", "quantity"]
    table = pd.DataFrame(rows, columns=[*by[:2], "data_seed", "quantity", "value"])
    table = intervals(table, by, level=study.level)
    is_log, ends = table["quantity"] != "alignment", ["mean", "low", "high"]
    table[ends] = table[ends].mask(is_log, np.exp(table[ends]))
    return table


def verdict(study: Study, own: str, table: pd.DataFrame, describe: Describe) -> list[str]:
    """Return the result for your router in two or three sentences: loss by task type, and what `describe`
    says of its routing."""
    lines = []
    for kind, rows in table[table["score"] == LOSSES[IN]].groupby("kind", observed=True):
        named = rows["variant"].astype(str).replace(ORACLE, f"the oracle ({ORACLE})")
        names = {word: list(part) for word, part in named.groupby(rows["verdict"])}
        better, worse = names.get("better", []), names.get("worse", [])
        parts = [f"{own} beats {len(better) or 'none'} of {len(rows)} reference models in loss ({kind})"]
        if better:
            parts[0] += f": {in_a_row(better)}"
        if worse:
            parts.append(f"loses to {in_a_row(worse)}")
        if undecided := len(rows) - len(better) - len(worse):
            parts.append(f"{undecided} {'is' if undecided == 1 else 'are'} undecided")
        lines.append(f"{'; '.join(parts)}.")
    if lost := (study.diverged["variant"] == own).sum():
        lines.append(f"{lost} of the models of {own} diverged.")
    return [*lines, *describe(study, own)]


def routing_words(study: Study, own: str) -> list[str]:
    """Return how your router aligns with rules, between which others, and how many modules it uses."""
    rows = study.results[(study.results["arch"] == "mlp") & (study.results["router"] != CLAMPED)]
    means = {
        name: part.groupby("variant", observed=True)["value"].mean().sort_values()
        for name, part in rows.groupby("measure", observed=True)
    }
    aligned = means.get("alignment", pd.Series(dtype=float))
    if own not in aligned:
        return []
    number = int(rows.loc[rows["variant"] == own, "num_modules"].iloc[0])
    others = aligned.drop(own)
    below, above = others[others <= aligned[own]].tail(1), others[others > aligned[own]].head(1)
    near = [f"{name} ({value:.2f})" for part in (below, above) for name, value in part.items()]
    where = f", {'between' if len(near) == 2 else 'next to'} {in_a_row(near)}" if near else ""
    text = f"MLP regression: alignment {aligned[own]:.2f}{where}"
    if number > 1:  # n evenly used modules of M have a collapse of (M - n) / (M - 1)
        used = number - means["collapse_avg"][own] * (number - 1)
        text += f"; modules are used as unevenly as if {used:.1f} of {number} did all"
    return [f"{text}."]


def in_short(study: Study, own: str, table: pd.DataFrame, placed: pd.DataFrame) -> list[str]:
    """Return the results of `differences` and `places` for your router, in sentences."""
    lines = []
    for (kind, score), rows in table.groupby(["kind", "score"], observed=True):
        if score in LOSSES.values():
            number = rows["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
            counted = ", ".join(f"{word} than {number[word]}" for word in VERDICTS[:2])
            lines.append(f"{kind}, {score}: of {len(rows)} rows {counted}, undecided {number['undecided']}.")
    for where, rows in placed[placed["variant"] == own].groupby("distribution", observed=True):
        means = {row["quantity"]: short_number(row["mean"]) for _, row in rows.iterrows()}
        ranges = {row["quantity"]: interval_words(row, study.level) for _, row in rows.iterrows()}
        fixed = [f"{means[way]} times the oracle's loss if {way} {ranges[way]}" for way in WAYS.values()]
        beyond = [f"{means[name]} times {ranges[name]}" for name in map("beyond {}".format, WAYS.values())]
        lines += [
            f"MLP regression {where}: alignment {means['alignment']} {ranges['alignment']}; "
            f"{means['cost']} times the oracle's loss {ranges['cost']}.",
            f"Fixed routing with this alignment has {' and '.join(fixed)}. Your router has "
            f"{' and '.join(beyond)} the loss of these.",
        ]
    tasks = study.results["data_seed"].nunique()
    models = len(study.results.drop_duplicates(["arch", "variant", "data_seed"]))
    lines.append(
        f"{models} models in all, one seed on each of {tasks} tasks; intervals: Student's t over tasks; "
        f"checkpoint {study.checkpoint}: {CHECKPOINT_WORDS[study.checkpoint]}."
    )
    return lines
