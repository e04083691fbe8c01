"""How a number changes with the number of rules."""

import numpy as np
import pandas as pd

from modtf.results.schema import KIND

SERIES = (*KIND, "width", "data_seed", "seed")


def slopes(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """The least-squares slope of `value` against log2 R for every series of models that differ in R alone.

    Returns:
        The columns of `SERIES` and `slope`, the change per doubling of R. No row for a series with one R.
    """
    frame = frame[np.isfinite(frame[value])].assign(x=lambda rows: np.log2(rows["num_rules"].astype(float)))
    frame = frame.assign(xx=frame["x"] ** 2, xy=frame["x"] * frame[value])
    means = frame.groupby(list(SERIES), observed=True)[["x", value, "xx", "xy"]].mean()
    spread = means["xx"] - means["x"] ** 2
    slope = (means["xy"] - means["x"] * means[value]) / spread.where(spread > 1e-9)
    return slope.rename("slope").dropna().reset_index()
