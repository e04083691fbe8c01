"""What the claims about collapse and specialisation are made of."""

import math

import pandas as pd

from modtf.analysis.paired import match_members
from modtf.analysis.random_baseline import random_baseline
from modtf.analysis.study import Study
from modtf.metrics import Measure, measures

LEARNED = ("modular", "modular_op")  # the variants that could collapse or fail to specialise
SHARE_OF_RANGE = 0.1  # a difference that counts, of the range of a measure


def measures_in(study: Study, group: str) -> list[Measure]:
    """The measures of a group that the results hold."""
    found = set(study.results["measure"].unique())
    return [measure for measure in measures(group) if measure.name in found]


def margin(measure: Measure) -> float:
    """A difference that counts: a tenth of the measure's range, 0 where the range has no end.

    A measure that cannot be negative is above 0 by noise alone, so "above 0" would be no test.
    """
    low, high = measure.range
    return SHARE_OF_RANGE * (high - low) if math.isfinite(high - low) else 0.0


def measured(study: Study, measure: Measure, variant: str) -> pd.DataFrame:
    """The rows of one measure and variant, with `badness`: the value, turned so that larger is worse."""
    rows = study.results
    rows = rows[(rows["measure"] == measure.name) & (rows["variant"] == variant)]
    return rows.assign(badness=rows["value"] if measure.smaller_is_better else -rows["value"])


def against_random(study: Study, measure: Measure, variant: str) -> pd.DataFrame:
    """The same rows, with `distance`: by how much they are worse than modules picked at random."""
    rows = measured(study, measure, variant)
    random = random_baseline(rows["num_rules"].unique()).query("measure == @measure.name")
    baseline = rows["num_rules"].map(random.set_index("num_rules")["value"]).astype(float)
    sign = 1.0 if measure.smaller_is_better else -1.0
    return rows.assign(distance=rows["badness"] - sign * baseline)


def gains(study: Study, measure: Measure, first: str, second: str) -> pd.DataFrame:
    """`match_members` of a measure: `gain` is by how much the first is better."""
    rows = study.results
    return match_members(rows[rows["measure"] == measure.name], first, second)
