"""Which rows of the results say how good a model is, in and out of distribution."""

import pandas as pd

from modtf.task import TRAINING_LENGTH

MEASURE_OF_SETTING = {"regression": "loss", "classification": "error"}
IN, OUT = "in distribution", "out of distribution"
OUT_SCALE = 2.0
OUT_LENGTH = 30  # with OUT_SCALE, the published headline for sequences


def performance_rows(frame: pd.DataFrame, conditions: bool = True) -> pd.DataFrame:
    """The loss of regression and the error of classification.

    Args:
        frame: as `load_results` or `load_history` gives it.
        conditions: keep only the two headline conditions and name them in a new column `condition`: "in
            distribution" is scale 1 and the training length; "out of distribution" is scale 2 and, for
            sequences, 30 tokens, as published.

    Example:
        >>> performance_rows(frame).condition.unique()  # doctest: +SKIP
    """
    rows = frame[frame["measure"] == frame["setting"].map(MEASURE_OF_SETTING)]
    if not conditions:
        return rows
    at_training_length = rows["seq_len"].isna() | (rows["seq_len"] == TRAINING_LENGTH).fillna(False)
    at_out_length = rows["seq_len"].isna() | (rows["seq_len"] == OUT_LENGTH).fillna(False)
    inside = (rows["scale"] == 1.0) & at_training_length.astype(bool)
    outside = (rows["scale"] == OUT_SCALE) & at_out_length.astype(bool)
    return pd.concat([rows[inside].assign(condition=IN), rows[outside].assign(condition=OUT)])
