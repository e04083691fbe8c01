"""How far models have learned, by their evaluations during training."""

from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.rows import IN, performance_rows
from modtf.results.schema import KIND, MEMBER


def shares_learned(study: Any) -> pd.DataFrame:
    """Return the share of its first loss or error that the best variant lost in training.

    A variant counts by the median of its models, without those that diverged or were evaluated only once. 0
    says that nothing was learned, 1 that no loss is left.

    Returns:
        One row per task type and R: the columns of `KIND`, kind, num_rules, share (NaN if no model counts),
        num_evaluations (the most of any model). It has no rows without evaluations during training.
    """
    rows = performance_rows(study.history)
    rows = rows[rows["distribution"] == IN].sort_values("step")
    models, sizes = rows.groupby([*MEMBER, "kind"], observed=True)["value"], [*KIND, "kind", "num_rules"]
    number = models.size()
    with np.errstate(divide="ignore", invalid="ignore"):
        left = models.agg(lambda values: values.iloc[-1] / values.iloc[0])  # pandas' "last" would skip NaN
    left = left.where(np.isfinite(left) & (number > 1)).groupby([*sizes, "variant"], observed=True)
    best, most = left.median().groupby(sizes, observed=True).min(), number.groupby(sizes, observed=True).max()
    return pd.DataFrame({"share": 1 - best, "num_evaluations": most}).reset_index()
