"""How far models have learned, by their evaluations during training."""

from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.rows import IN, performance_rows
from modtf.results.schema import KIND, MEMBER


def shares_learned(study: Any) -> pd.DataFrame:
    """Return the share of its first loss or error that the best variant lost in training.

    A variant counts by the median of its models, without those that diverged. 0 says that nothing was
    learned, 1 that no loss is left.

    Returns:
        One row per task type and R: the columns of `KIND`, kind, num_rules, share (NaN if all models
        diverged). It has no rows without evaluations during training.
    """
    rows = performance_rows(study.history)
    rows = rows[rows["distribution"] == IN].sort_values("step")
    models = rows.groupby([*MEMBER, "kind"], observed=True)["value"]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = models.agg(lambda values: values.iloc[-1] / values.iloc[0])  # pandas' "last" would skip NaN
    left = left.where(np.isfinite(left)).groupby([*KIND, "kind", "num_rules", "variant"], observed=True)
    best = left.median().groupby([*KIND, "kind", "num_rules"], observed=True).min()
    return (1 - best).rename("share").reset_index()
