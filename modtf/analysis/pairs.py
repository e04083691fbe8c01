"""Variants on the same tasks and seeds: how much better is one than another, and how often is it best?"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from modtf.analysis.intervals import (
    LEVEL,
    MIN_TASKS,
    holm,
    intervals,
    refuse_mixtures,
    t_interval,
    varies,
    warn_of_weights,
)
from modtf.analysis.labels import family_attribute, known_variants, with_kinds
from modtf.analysis.rows import activation_rows, check_ways, performance_rows
from modtf.base.checks import check_choice, check_level
from modtf.metrics import smaller_is_better
from modtf.results.schema import CELL, KIND, SCORE

MODEL = ("variant", "model_options")  # two variants of a pair may differ in these
SAME = tuple(name for name in (*CELL, *SCORE, "distribution") if name not in MODEL)
MATCH = (*(name for name in CELL if name not in MODEL), "data_seed", "seed", *SCORE, "distribution", "step")
SCORED = [*KIND, "num_rules", "measure", "condition", "distribution"]
ENDS = {"": "mean", "_low": "low", "_high": "high"}  # suffixes of column names
POWER = 0.8  # of `smallest_gain`
NO_CONDITION = "activation"  # the `distribution` of activation measures
GAINED = ["variant", "kind", *SCORED, "gain", "low", "high", "p", "p_corrected"]
GAINED += ["num_tasks", "num_models", "num_missing"]
VOTE = (*KIND, "num_rules", "width", "data_seed", "distribution", "measure")


def next_informed(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return pairs (variant, next less informed variant) of each family in the frame.

    With fewer than two variants of the family itself: (variant, the first of all)."""
    pairs: list[tuple[str, str]] = []
    for arch, rows in frame.groupby("arch", observed=True):
        variants = rows["variant"].drop_duplicates().sort_values().tolist()
        own = [name for name in known_variants([str(arch)]) if name in variants]
        pairs += pairwise(own) if len(own) > 1 else [(variants[0], other) for other in variants[1:]]
    return [(second, first) for first, second in dict.fromkeys(pairs)]


def match_members(frame: pd.DataFrame, first: str, second: str, also: Sequence[str] = ()) -> pd.DataFrame:
    """Return models of two variants that agree in everything else, task and seed included, side by side.

    Args:
        frame: rows of `Study.results`.
        first, second: values of its column `variant`.
        also: other columns to keep, as they are for the first.

    Returns:
        The shared columns, then `value_first`, `value_second`, `gain` (how much better the first is, in the
        unit of the measure) and `advantage` (gain divided by the larger magnitude of the two). An advantage
        of 0.2 is a loss 20% below the second's. -0.2 means the second's is 20% lower. 0 if both are 0.

    Raises:
        ValueError: if a variant holds a model more than once, or the two cannot be compared, see
            `check_ways`.
    """
    frame = frame[frame["variant"].isin([first, second])]
    check_ways(frame)
    every = [name for name in MATCH if name in frame]
    key = [name for name in every if varies(frame[name])] or every[:1]  # few columns are matched faster
    kept = [name for name in (*every, *also) if name not in key]
    sides = [
        frame.loc[frame["variant"] == name, [*key, "value", *dict.fromkeys(others)]]
        for name, others in ((first, kept), (second, []))
    ]
    for name, side in zip((first, second), sides, strict=True):
        if side.duplicated(key).any():
            raise ValueError(
                f"The rows hold a model of {name!r} more than once. Choose one protocol and one set "
                "of options first, or read them with modtf.Study, which names variants with options."
            )
    pairs = sides[0].merge(sides[1], on=key, suffixes=("_first", "_second"))
    sign = {measure: 1.0 if smaller_is_better(measure) else -1.0 for measure in pairs["measure"].unique()}
    signs = pairs["measure"].astype(str).map(sign).astype(float)
    pairs["gain"] = (pairs["value_second"] - pairs["value_first"]) * signs
    largest = pairs[["value_first", "value_second"]].abs().max(axis=1, skipna=False)
    pairs["advantage"] = (pairs["gain"] / largest.replace(0.0, np.nan)).mask(largest == 0.0, 0.0)
    return pairs


def compare_pairs(
    frame: pd.DataFrame,
    pairs: Sequence[tuple[str, str]] | None = None,
    by: Sequence[str] = SAME,
    over: Sequence[str] = (),
    level: float = LEVEL,
) -> pd.DataFrame:
    """Compare pairs of variants on the same task and seed.

    Args:
        frame: rows of `Study.results`, of registered measures.
        pairs: (first, second); positive numbers favour the first. By default every variant of a family and
            the next less informed one.
        by: columns; each combination of their values becomes a row per pair. Of a column in which the two may
            differ, such as num_parameters, the first's value counts.
        over: columns to average over on purpose. Gains then mix scales, so read the advantage. A warning
            says if their values have different data seeds, see `summarise`.

    Returns:
        first, second, the columns of `by`, gain, gain_low, gain_high (difference in the measure's unit),
        advantage, advantage_low, advantage_high (relative, -1..1), effect_size (mean gain divided by its
        standard deviation over pairs), wins (share of pairs won, a tie counts half), num_tasks, num_models
        (pairs), num_missing.

    Raises:
        ValueError: if a row would average over a column that `over` does not name, a column of `by` or a
            variant is missing, a pair does not have two names, or the level is not between 0 and 1.
    """
    check_level(level)
    lacking = [name for name in by if name not in frame and name not in SAME]
    if lacking:
        raise ValueError(f"The rows have no column {lacking[0]!r}; they have {', '.join(map(str, frame))}.")
    by = [name for name in by if name in frame]
    for pair in () if pairs is None else pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(
                f"pairs holds {pair!r}; expected pairs of variants: [('modular', 'monolithic')]."
            )
        for name in pair:
            check_choice("variant", name, frame["variant"].unique())
    tables = []
    for first, second in next_informed(frame) if pairs is None else pairs:
        matched = match_members(frame, first, second, by)
        if matched.empty:
            continue
        refuse_mixtures(matched, by, over)
        warn_of_weights(matched, by, over)
        matched["won"] = ((np.sign(matched["gain"]) + 1) / 2).where(np.isfinite(matched["gain"]))
        table = intervals(matched, by, "advantage", level).assign(first=first, second=second)
        at_limit = (table["mean"].abs() == 1) & (table["low"] == table["high"])  # each pair is one vote
        table = table.mask(at_limit, _at_least_votes(table, level, -1.0, 1.0))
        for name, averaged in (("advantage", table), ("gain", intervals(matched, by, "gain", level))):
            for end, column in ENDS.items():
                table[f"{name}{end}"] = averaged[column]
        table["wins"] = intervals(matched, by, "won", level)["mean"]
        table["effect_size"] = _effect_size(matched, by)
        tables.append(table)
    order = ["first", "second", *by, *(f"{name}{end}" for name in ("gain", "advantage") for end in ENDS)]
    order += ["effect_size", "wins", "num_tasks", "num_models", "num_missing"]
    return pd.concat(tables, ignore_index=True)[order] if tables else pd.DataFrame(columns=order)


def _at_least_votes(
    table: pd.DataFrame, level: float, lowest: float = 0.0, highest: float = 1.0
) -> pd.DataFrame:
    """Return means with intervals within the limits, and at least as wide as of as many votes."""
    error = share_error(table["mean"], table["num_models"], lowest, highest)
    low, high = t_interval(table["mean"], error * np.sqrt(table["num_tasks"]), table["num_tasks"], level)
    ends = {"low": np.minimum(table["low"], low), "high": np.maximum(table["high"], high)}
    return table.assign(**{name: end.clip(lowest, highest) for name, end in ends.items()})


def _effect_size(matched: pd.DataFrame, by: list[str]) -> np.ndarray:
    """Return mean / standard deviation of the gain of every row; NaN for one pair or equal gains."""
    keys = [matched[name] for name in by] or [pd.Series(0, matched.index)]
    finite = matched["gain"].where(np.isfinite(matched["gain"]))
    groups = finite.groupby(keys, observed=True)
    return (groups.mean() / groups.std().replace(0.0, np.nan)).to_numpy(float)


def against(frame: pd.DataFrame, baseline: str | None = None, level: float = LEVEL) -> pd.DataFrame:
    """Return how much better every variant is than `baseline`: performance, collapse and specialisation.

    Args:
        frame: rows of `Study.results`.
        baseline: a value of its column `variant`; by default the reference of the family, such as "modular".
        level: of the intervals over data seeds.

    Returns:
        A row per variant, task type, R and score: variant, kind, the columns of `KIND`, num_rules, measure,
        condition, distribution ("in distribution", "out of distribution", "activation"), gain, low, high, p
        (two-sided, of no gain), p_corrected (Holm, over the variants compared in a score), num_tasks,
        num_models (pairs), num_missing; for models with several routed layers also place. A positive gain
        is better than the baseline. The gain of a loss or error is relative to the larger of both, -1..1;
        the gain of an activation measure is in its unit. Widths are averaged. p needs three tasks. The
        table is empty if no two variants share tasks and seeds.

    Raises:
        ValueError: if the rows lack that variant, or their families have different references.

    Example:
        >>> against(study.results).query("measure == 'collapse_worst'")  # doctest: +SKIP
    """
    variants = list(frame["variant"].drop_duplicates().sort_values())
    baseline = family_attribute(frame, "reference") if baseline is None else baseline
    check_choice("baseline", baseline, variants)
    measured = activation_rows(frame, directed=True).assign(distribution=NO_CONDITION)
    rows = pd.concat([performance_rows(frame), measured])
    places = ["place"] if "place" in rows and rows["place"].nunique() > 1 else []
    scored, columns = [*SCORED, *places], [*GAINED, *places]
    pairs = [(name, baseline) for name in variants if name != baseline]
    table = compare_pairs(rows, pairs, scored, over=["width"], level=level)
    if table.empty:
        return pd.DataFrame(columns=columns)
    table["variant"] = pd.Categorical(table["first"], variants)
    is_share = table["distribution"].astype(str) != NO_CONDITION
    for name, end in zip(("gain", "low", "high"), ENDS, strict=True):
        table[name] = table[f"advantage{end}"].where(is_share, table[f"gain{end}"])
    table["p"] = two_sided(table, level)
    table["p_corrected"] = table.groupby(scored, observed=True)["p"].transform(lambda p: holm(p.tolist()))
    return with_kinds(table)[columns]


def two_sided(
    table: pd.DataFrame, level: float = LEVEL, *, columns: Sequence[str] = ("gain", "low", "high")
) -> NDArray[np.float64]:
    """Return the p value of a mean this far from 0 if the true mean is 0; NaN for fewer than three tasks.

    Args:
        table: a row per mean, with the column `num_tasks`.
        level: of the intervals.
        columns: the mean and the two ends of its interval.

    Example:
        >>> low, high = t_interval(2.0, 1.0, 3)
        >>> row = pd.DataFrame({"gain": [2.0], "low": [low], "high": [high], "num_tasks": [3]})
        >>> round(float(two_sided(row)[0]), 3)  # t = 2 / (1 / sqrt(3))
        0.074
    """
    freedom, error = _errors(table, level, columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(table[columns[0]].to_numpy(float)) / error
    distance = np.where(np.isnan(distance) & (error == 0), 0.0, distance)  # 0 in every task
    return 2 * stats.t.sf(distance, freedom)


def smallest_gain(
    table: pd.DataFrame, level: float = LEVEL, *, columns: Sequence[str] = ("gain", "low", "high")
) -> NDArray[np.float64]:
    """Return the smallest true gain that a comparison paired by task finds with a power of about 80%.

    It is (t_a + t_b) s / sqrt(n): s is the standard deviation of the gains of n tasks, and t_a and t_b are
    the quantiles (1 + level) / 2 and 0.8 of Student's t with n - 1 degrees of freedom. It holds for a single
    two-sided test, before correction for several. The power is 77% for three tasks and 79% for five. The
    arguments are those of `two_sided`.

    Example:
        >>> low, high = t_interval(2.0, 1.0, 3)
        >>> row = pd.DataFrame({"gain": [2.0], "low": [low], "high": [high], "num_tasks": [3]})
        >>> round(float(smallest_gain(row)[0]), 2)  # (4.303 + 1.061) / sqrt(3)
        3.1
    """
    freedom, error = _errors(table, level, columns)
    return (stats.t.ppf((1 + level) / 2, freedom) + stats.t.ppf(POWER, freedom)) * error


def _errors(
    table: pd.DataFrame, level: float, columns: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the degrees of freedom of means, NaN for fewer than three tasks, and their standard errors."""
    value, low, high = (table[name].to_numpy(float) for name in columns)
    number = table["num_tasks"].to_numpy(float)
    freedom = np.where(number >= MIN_TASKS, number - 1, np.nan)
    reach = t_interval(0.0, np.sqrt(np.maximum(number, 1)), number, level)[1]  # half-width in standard errors
    half = np.maximum(high - value, value - low)  # one end may be that of the possible values
    return freedom, half / reach


def as_one_family(compared: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
    """Return paired comparisons with `p` (two-sided, of no gain), `p_corrected` (Holm, over all rows) and
    the `smallest_gain` that each could have found.

    Args:
        compared: the table of `compare_pairs`; p is NaN for rows with fewer than three tasks.
        level: of its intervals.
    """
    columns = ("gain", "gain_low", "gain_high")
    p, least = (measure(compared, level, columns=columns) for measure in (two_sided, smallest_gain))
    return compared.assign(p=p, p_corrected=holm(p.tolist()), smallest_gain=least)


def as_ratio(reduction: float) -> float:
    """Return first / second of two losses, given the reduction relative to the larger loss.

    Example:
        >>> as_ratio(0.2), as_ratio(-0.2)
        (0.8, 1.25)
    """
    if math.isnan(reduction) or reduction >= 0:
        return max(1 - reduction, 0.0)  # in this order NaN stays NaN
    return 1 / (1 + reduction) if reduction > -1 else math.inf


def mean_ratios(pairs: pd.DataFrame, by: Sequence[str] = (), level: float = LEVEL) -> pd.DataFrame:
    """Return the geometric mean of first / second, with its interval over tasks.

    Args:
        pairs: the table of `match_members`, with `value_first` and `value_second`.
        by: columns; each combination of their values becomes a row.
        level: of the interval.

    Returns:
        The columns of `by`, then those of `summarise`, and p (two-sided, of a ratio of 1). Pairs without a
        finite logarithm are left out and counted in num_missing.
    """
    table, ends = intervals(pairs.assign(log=log_ratios(pairs)), by, "log", level), list(ENDS.values())
    return table.assign(p=two_sided(table, level, columns=ends), **np.exp(table[ends]))


def ratios_to(
    first: pd.DataFrame,
    second: pd.DataFrame,
    by: Sequence[str] = (),
    on: Sequence[str] = (),
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return `mean_ratios` of the values of two tables on the same tasks and seeds.

    Args:
        first, second: tables with `data_seed`, `seed` and `value`.
        by: columns of `first`; each combination of their values becomes a row.
        on: further columns in which both agree.
        level: of the interval.
    """
    key = ["data_seed", "seed", *on]
    columns = list(dict.fromkeys([*by, *key, "value"]))
    pairs = first[columns].merge(second[[*key, "value"]], on=key, suffixes=("_first", "_second"))
    return mean_ratios(pairs, by, level)


def log_ratios(pairs: pd.DataFrame) -> pd.Series:
    """Return log(first / second) of the pairs in a table of `match_members`; NaN unless both are above 0."""
    positive = (pairs[["value_first", "value_second"]] > 0).all(axis=1)
    return np.log((pairs["value_first"] / pairs["value_second"]).where(positive))


def votes(rows: pd.DataFrame, variants: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one vote for each task of each cell and condition.

    A task votes only if every variant was run on it. Variants are averaged over the seeds that all of them
    have, so that no variant profits from an easier seed. Variants that tie share the vote. The vote is NaN
    if one of these models diverged.

    Args:
        rows: see `performance_rows`.
        variants: the candidates; by default those of the families.

    Returns:
        The columns of `VOTE`, `variant`, `vote` (0..1, they sum to 1; or NaN) and `num_seeds`.

    Raises:
        ValueError: if a model appears twice, for example for two checkpoints, or candidates cannot be
            compared, see `check_ways`.
    """
    variants = known_variants(rows["arch"].unique()) if variants is None else list(variants)
    rows = rows[rows["variant"].isin(variants)]
    rows = rows.assign(value=rows["value"].where(np.isfinite(rows["value"]), np.inf))  # below, NaN: not run
    key = [*VOTE, "seed"]
    check_ways(rows)
    if rows.duplicated([*key, "variant"]).any():
        raise ValueError(
            "The rows hold a model more than once for a condition. Choose one checkpoint and protocol first."
        )
    rows = rows.astype({name: object for name in (*VOTE, "variant") if rows[name].dtype == "category"})
    wide = rows.set_index([*key, "variant"])["value"].unstack("variant").reindex(columns=variants).dropna()
    if wide.empty:
        return pd.DataFrame(columns=[*VOTE, "variant", "vote", "num_seeds"])
    grouped = wide.groupby(list(VOTE))
    means = grouped.mean()
    counts = grouped.size().rename("num_seeds")
    sign = means.index.get_level_values("measure").map(lambda name: 1.0 if smaller_is_better(name) else -1.0)
    scores = means.to_numpy() * np.asarray(sign, float)[:, np.newaxis]
    best = scores == scores.min(axis=1, keepdims=True)
    share = pd.DataFrame(best / best.sum(axis=1, keepdims=True), means.index, means.columns)
    share[np.isinf(means).any(axis=1)] = np.nan
    result = share.reset_index().melt(id_vars=list(VOTE), var_name="variant", value_name="vote")
    return result.merge(counts.reset_index(), on=list(VOTE))


def rank(cast: pd.DataFrame, by: Sequence[str] = ("distribution",), level: float = LEVEL) -> pd.DataFrame:
    """Return each variant's share of the `votes`, for every combination of `by`, which are columns of `VOTE`.

    Returns:
        The columns of `by`, variant, share (every data seed has the same weight), low, high, num_tasks,
        num_votes.
    """
    table = _at_least_votes(intervals(cast, [*by, "variant"], "vote", level), level)
    return table.rename(columns={"mean": "share", "num_models": "num_votes"}).drop(columns="num_missing")


def share_error(mean: Any, num_votes: Any, lowest: float = 0.0, highest: float = 1.0) -> Any:
    """Return the smallest standard error of a share of votes, or of a mean between other limits.

    Three tasks that all vote alike have no spread, but they do not prove that a fourth would agree. So the
    error is at least that of as many independent votes, with one vote added on each side.
    """
    share = (np.clip(mean, lowest, highest) - lowest) / (highest - lowest)
    smoothed = (share * num_votes + 1) / (num_votes + 2)
    return (highest - lowest) * np.sqrt(smoothed * (1 - smoothed) / num_votes)
