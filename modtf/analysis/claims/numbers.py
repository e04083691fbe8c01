"""The numbers behind evidence: differences between variants, activation measures, trends over R."""

from functools import cache

import numpy as np
import pandas as pd

from modtf.analysis.pairs import match_members
from modtf.analysis.rows import IN, random_baseline
from modtf.analysis.trained import TrainedModels
from modtf.metrics import MEASURES, Measure, measure_all, uniform_activation
from modtf.results.schema import KIND

MARGIN = 0.1  # the smallest difference that counts, in the unit of `share_lost`
SERIES = (*KIND, "width", "data_seed", "seed")


def advantage(study: TrainedModels, first: str, second: str, distribution: str = IN) -> pd.DataFrame:
    """Return `match_members` in one headline condition; `advantage` is the reduction of the first's loss."""
    rows = study.performance
    return match_members(rows[rows["distribution"] == distribution], first, second)


def gains(study: TrainedModels, measure: Measure, first: str, second: str) -> pd.DataFrame:
    """Return `match_members` of a measure; `gain` is by how much the first is better."""
    rows = study.results
    return match_members(rows[rows["measure"] == measure.name], first, second)


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


def slopes(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the slope of `value` against log2 R (least squares) for every series of models that differ in R.

    Returns:
        The columns of `SERIES` and `slope`, the change per doubling of R; NaN if a value is not finite. No
        row for a series with one R.
    """
    frame = frame.assign(x=np.log2(frame["num_rules"].astype(float)), finite=np.isfinite(frame[value]))
    frame = frame.assign(xx=frame["x"] ** 2, xy=frame["x"] * frame[value])
    series = frame.groupby(list(SERIES), observed=True)
    means = series[["x", value, "xx", "xy"]].mean()
    spread = means["xx"] - means["x"] ** 2
    slope = (means["xy"] - means["x"] * means[value]) / spread
    return slope.where(series["finite"].all())[spread > 1e-9].rename("slope").reset_index()
