"""Reads the tables that `modtf.results.schema` writes."""

import os
from collections.abc import Mapping
from typing import Any, TextIO

import pandas as pd

_VERSION = tuple(int(part) for part in pd.__version__.split(".")[:2])
#: makes pandas read numbers to the last bit; from 3.1 on it always does
EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _VERSION < (3, 1) else {}


def read_values(
    path: str | os.PathLike[str] | TextIO, dtypes: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """A table as it was written: numbers to the last bit, no value where a model has none.

    Args:
        path: of a CSV file, or the open file, with a column `value`.
        dtypes: of columns; by default as pandas finds them.

    Raises:
        ValueError: if it is no table of these types.
    """
    return pd.read_csv(
        path,
        dtype=None if dtypes is None else dict(dtypes),
        keep_default_na=False,  # "" is no missing value: it is how a model without options says so
        na_values={"value": ["", "nan", "NaN"]},
        **EXACT,
    )
