"""The numbers behind a claim: where they come from, their uncertainty, and what the claim expects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import numpy as np
import pandas as pd
from scipy import stats

from modtf.analysis.intervals import LEVEL, MIN_TASKS, UNIT, data_seed_means, t_interval
from modtf.analysis.pairs import as_ratio, match_members, share_error
from modtf.analysis.rows import IN, random_baseline
from modtf.analysis.trained import TrainedModels
from modtf.metrics import MEASURES, Measure, measure_all, uniform_activation
from modtf.results.schema import KIND

MOST_TASKS = 1000  # an upper limit, because nobody runs more tasks
RANKED = [*KIND, "num_rules", "width", "data_seed"]  # models that agree in these may be ranked together
AGREEMENT = (-1.0, 1.0)  # the range of a rank agreement, and of an advantage
MARGIN = 0.1  # the smallest difference that counts, in the unit of `share_lost`
SERIES = (*KIND, "width", "data_seed", "seed")


@dataclass(frozen=True)
class Evidence:
    """A mean over tasks (data seeds). The claim expects it above `above`, or within +-`within` of 0."""

    name: str
    value: float = math.nan
    error: float = math.nan  # standard error over tasks
    num_tasks: int = 0
    num_models: int = 0  # values that the mean is over
    num_missing: int = 0  # values left out because a model diverged
    above: float = 0.0
    within: float | None = None
    level: float = LEVEL
    limits: tuple[float, float] = (-math.inf, math.inf)  # the range of possible values
    lacking: str = "no such models"  # the reason to print when there are no tasks
    shown_only: bool = False  # shown for information, not judged
    is_ratio: bool = False  # a reduction relative to the larger of two losses, shown as first / second
    sample: tuple[tuple[int, float], ...] = ()  # (data seed, mean) of each task

    @property
    def expected(self) -> str:
        if self.within is None:
            return f"below {as_ratio(self.above):.3g}" if self.is_ratio else f"> {self.above:g}"
        if self.is_ratio:
            return f"{as_ratio(self.within):.3g} to {as_ratio(-self.within):.3g}"
        return f"within {self.within:g} of 0"

    @property
    def is_enough(self) -> bool:
        """Return whether there are enough tasks for a verdict."""
        return self.num_tasks >= MIN_TASKS and math.isfinite(self.value) and math.isfinite(self.error)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The interval (low, high); NaN for fewer than two tasks."""
        if self.num_tasks < 2:
            return math.nan, math.nan
        deviation = self.error * math.sqrt(self.num_tasks)
        low, high = t_interval(self.value, deviation, self.num_tasks, self.level)
        return max(float(low), self.limits[0]), min(float(high), self.limits[1])

    @property
    def supports(self) -> bool:
        """Return whether the whole interval lies on the claimed side."""
        low, high = self.interval
        if self.within is not None:
            return self.is_enough and -self.within < low and high < self.within
        return self.is_enough and low > self.above

    @property
    def distance(self) -> float:
        """The distance from the border, positive on the claimed side."""
        return self.value - self.above if self.within is None else self.within - abs(self.value)

    @property
    def p_against(self) -> float:
        """Return the probability of a number this far off the claimed side if the claim just holds."""
        if not self.is_enough:
            return math.nan
        if self.error == 0.0:
            return float((1 + np.sign(self.distance)) / 2)  # at the border nothing speaks for either side
        return float(stats.t.cdf(self.distance / self.error, self.num_tasks - 1))

    @property
    def p_for(self) -> float:
        """Return the probability of a number this far on the claimed side if the true one lies at the border.

        With two borders the nearer one counts (two one-sided tests). NaN without enough tasks."""
        return 1.0 - self.p_against

    @property
    def margin(self) -> float:
        """The `distance` in standard errors."""
        return self.distance / self.error if self.error > 0 else math.copysign(math.inf, self.distance)

    def tasks_needed(self, looks: int = 1) -> int | None:
        """Return about how many tasks would decide, if mean and spread stay as observed; None: over 1,000.

        A contradiction is corrected for `looks` tests."""
        deviation = self.error * math.sqrt(self.num_tasks)
        tasks = np.arange(MIN_TASKS, MOST_TASKS + 1)
        half = stats.t.ppf(1 - (1 - self.level) / 2 / looks, tasks - 1) * deviation / np.sqrt(tasks)
        enough = tasks[half < abs(self.distance)]
        return int(enough[0]) if enough.size else None


def shift_p(first: Evidence, second: Evidence) -> float:
    """Return the two-sided p of a shift between two means of the same tasks; NaN for fewer than three."""
    other = dict(second.sample)
    shifts = np.array([other[task] - value for task, value in first.sample if task in other])
    if len(shifts) < MIN_TASKS:
        return math.nan
    error = shifts.std(ddof=1) / math.sqrt(len(shifts))
    if error == 0.0:
        return float(shifts[0] == 0.0)
    return float(2 * stats.t.sf(abs(shifts.mean() / error), len(shifts) - 1))


def mean_evidence(
    frame: pd.DataFrame,
    value: str,
    name: str,
    above: float = 0.0,
    within: float | None = None,
    level: float = LEVEL,
) -> Evidence:
    """Return the mean of a column as evidence.

    The mean is first taken within each data seed, then over data seeds with equal weight. If the column
    `advantage` is 1 in all of them, or -1, each is one vote."""
    if frame.empty:
        return Evidence(name, above=above, within=within, level=level)
    tasks = data_seed_means(frame, (), value)
    sample = tasks[value].to_numpy(np.float64)
    finite = int(np.isfinite(frame[value].to_numpy(np.float64)).sum())
    count = len(sample)
    mean = float(sample.mean()) if count else math.nan
    error = float(sample.std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan
    evidence = Evidence(name, mean, error, count, finite, len(frame) - finite, above, within, level)
    of_tasks = tuple(zip(tasks[UNIT].tolist(), sample.tolist(), strict=True))
    evidence = replace(evidence, sample=of_tasks, is_ratio=value == "advantage")
    at_limit = evidence.is_ratio and error == 0.0 and mean in AGREEMENT
    return as_votes(evidence, *AGREEMENT) if at_limit else evidence


def share_evidence(cast: pd.DataFrame, name: str, above: float, level: float = LEVEL) -> Evidence:
    """Return the share of votes, the column `vote`, as evidence; see `share_error`."""
    return as_votes(mean_evidence(cast, "vote", name, above, level=level), 0.0, 1.0)


def as_votes(evidence: Evidence, lowest: float, highest: float) -> Evidence:
    """Return the evidence with limits, and at least as uncertain as a share of as many votes.

    The values lie between `lowest` and `highest`. See `share_error`."""
    if not evidence.num_models:
        return evidence
    least = float(share_error(evidence.value, evidence.num_models, lowest, highest))
    return replace(evidence, error=max(evidence.error, least), limits=(lowest, highest))


def rank_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Return the share of pairs ordered alike minus the share ordered otherwise.

    Goodman and Kruskal's gamma, -1..1. Pairs that tie in either input do not count; NaN if no pair is left.
    Infinite entries come last.

    Example:
        >>> rank_agreement(np.array([1, 2, 3]), np.array([1, 3, 2]))  # 2 of 3 pairs alike
        0.3333333333333333
    """
    upper = np.triu_indices(len(first), k=1)
    one, other = map(stats.rankdata, (first, second))  # ranks are finite, even of infinite losses
    order = np.sign(np.subtract.outer(one, one) * np.subtract.outer(other, other))[upper]
    pairs = order[order != 0]
    return float(pairs.mean()) if pairs.size else float("nan")


def agreement_evidence(
    frame: pd.DataFrame, first: str, second: str, name: str, level: float = LEVEL
) -> Evidence:
    """Return the mean rank agreement over units with several variants; if all agree, each is one vote.

    A unit with a NaN is left out and counted as missing. A unit in which all variants tie is not counted."""
    rows = []
    for key, unit in frame.groupby(RANKED, observed=True):
        if unit["variant"].nunique() > 1:
            gamma = rank_agreement(unit[first].to_numpy(float), unit[second].to_numpy(float))
            if not np.isnan(gamma) or unit[[first, second]].isna().any(axis=None):
                rows.append((*key, gamma))
    table = pd.DataFrame(rows, columns=[*RANKED, "agreement"])
    evidence = mean_evidence(table, "agreement", name, level=level)
    if evidence.error == 0.0:  # all tasks agree, which can happen by chance with few tasks
        return as_votes(evidence, *AGREEMENT)
    return replace(evidence, limits=AGREEMENT)


def advantage(study: TrainedModels, first: str, second: str, distribution: str = IN) -> pd.DataFrame:
    """Return `match_members` in one headline condition; `advantage` is the reduction of the first's loss."""
    pairs = _matched(study, first, second, is_performance=True)
    return pairs[pairs["distribution"] == distribution]


def gains(study: TrainedModels, measure: Measure, first: str, second: str) -> pd.DataFrame:
    """Return `match_members` of a measure; `gain` is by how much the first is better."""
    pairs = _matched(study, first, second, is_performance=False)
    return pairs[pairs["measure"] == measure.name]


@lru_cache(maxsize=32)  # most claims compare the same few variants
def _matched(study: TrainedModels, first: str, second: str, is_performance: bool) -> pd.DataFrame:
    if is_performance:
        return match_members(study.performance, first, second)
    comparable = [measure.name for measure in MEASURES.values() if measure.smaller_is_better is not None]
    rows = study.results
    return match_members(rows[rows["measure"].isin(comparable)], first, second)


def measures_in(study: TrainedModels, group: str) -> list[Measure]:
    """Return the measures of a group that the results hold."""
    names = set(study.results["measure"].unique())
    return [m for m in MEASURES.values() if m.group == group and m.name in names]


def share_lost(measure: Measure, differences: pd.Series, num_rules: pd.Series) -> pd.Series:
    """Return differences of a measure, divided by its value under random routing or total collapse.

    The larger of the two is the unit. A measure that cannot be negative lies above 0 by noise alone, so
    "above 0" would test nothing. No routing reaches the end of a measure's theoretical range.
    """
    return differences / num_rules.map(lambda rules: lost(measure, int(rules))).astype(float)


@cache
def lost(measure: Measure, num_rules: int) -> float:
    """Return how much worse random routing of R modules is than perfect, or one module for all if worse."""
    one = np.eye(num_rules)[np.zeros(num_rules, int)]
    values = (measure_all(matrix)[measure.name] for matrix in (uniform_activation(num_rules), one))
    return max(abs(value - (measure.perfect or 0.0)) for value in values)


def measured(study: TrainedModels, measure: Measure, variant: str) -> pd.DataFrame:
    """Return the rows of one measure and variant, with `badness`: the value where larger is worse."""
    rows = study.results
    rows = rows[(rows["measure"] == measure.name) & (rows["variant"] == variant)]
    return rows.assign(badness=rows["value"] if measure.smaller_is_better else -rows["value"])


def against_random(study: TrainedModels, measure: Measure, variant: str) -> pd.DataFrame:
    """Return the same rows with `distance`: how much worse they are than random routing."""
    rows = measured(study, measure, variant)
    random = random_baseline(rows["num_rules"], list(rows["num_modules"])).query("measure == @measure.name")
    sizes, sign = ["num_rules", "num_modules"], 1.0 if measure.smaller_is_better else -1.0
    baseline = rows[sizes].merge(random, on=sizes, how="left")["value"].to_numpy()
    return rows.assign(distance=rows["badness"] - sign * baseline)


def slopes(
    frame: pd.DataFrame, value: str, against: pd.Series | None = None, by: Sequence[str] = SERIES
) -> pd.DataFrame:
    """Return the slope of `value` (least squares) for every series of models.

    Args:
        frame: rows of `Study.results`.
        value: a column.
        against: the x of every row; by default log2 R, so that a slope is the change per doubling of R.
        by: the columns that identify a series.

    Returns:
        The columns of `by` and `slope`; NaN if a value is not finite. No row for a series with one x.
    """
    x = np.log2(frame["num_rules"].astype(float)) if against is None else against.reindex(frame.index)
    x = x.to_numpy(float)
    y = frame[value].to_numpy(float)
    y = np.where(np.isfinite(y), y, np.nan)
    number = frame.groupby(list(by), observed=True).ngroup().to_numpy()
    count = np.bincount(number)  # sums by number take a quarter of the time of means of groups
    mean_x, mean_y, xx, xy = (np.bincount(number, each) / count for each in (x, y, x * x, x * y))
    spread = xx - mean_x**2
    several = spread > 1e-9
    series = frame[list(by)].iloc[np.unique(number, return_index=True)[1][several]].reset_index(drop=True)
    return series.assign(slope=(xy - mean_x * mean_y)[several] / spread[several])
