"""Heat maps of activation matrices."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from modtf.analysis.figures.layout import Look, panels
from modtf.metrics import alignment
from modtf.pages.pictures import HEAT, Picture

UNEQUAL = "rule_probability"  # a column of matrices whose rules are unequally frequent
NAMES = (64, 32)  # the largest number of row and column names that fit a matrix


def as_table(
    values: NDArray[np.float64],
    names: Sequence[str] | None = None,
    rule_probs: Sequence[float] | None = None,
    **columns: Any,
) -> pd.DataFrame:
    """Return a matrix [R, M] as a row per rule, by its number or name, and module, for `heat_maps`.

    If rules are unequally frequent, their frequencies are a further column.
    """
    rule, module = (index.ravel() for index in np.indices(values.shape))
    rules = rule if names is None else pd.Categorical.from_codes(rule, list(names))
    if rule_probs is not None:
        columns[UNEQUAL] = np.asarray(rule_probs)[rule]
    return pd.DataFrame({"rule": rules, "module": module, "probability": values.ravel(), **columns})


def heat_maps(tables: list[pd.DataFrame], *drawn: Any) -> Picture:
    """Draw matrices with a colour bar, from tables of `as_table`, like `panels`."""
    picture = panels(heat_map, pd.concat(tables, ignore_index=True), *drawn)
    (body,) = picture.figure.subfigs
    colours = ScalarMappable(Normalize(0, 1), HEAT)
    body.colorbar(colours, ax=body.axes, label="p(module | rule)", aspect=30, fraction=0.04)
    return picture


def heat_map(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw a heat map: rules downwards, modules to the right."""
    rules = list(data["rule"].unique())  # pandas would sort names: rule_10 before rule_2
    values = data.pivot(index="rule", columns="module", values="probability").reindex(rules)
    aspect: Any = "equal" if values.shape[0] == values.shape[1] else "auto"
    axes.imshow(values, HEAT, vmin=0, vmax=1, interpolation="nearest", aspect=aspect)
    for axis, index, most in zip((axes.yaxis, axes.xaxis), values.axes, NAMES, strict=True):
        every = 1 if len(index) <= 8 else len(index) - 1  # label only the ends of long number axes
        every = every if is_numeric_dtype(index.dtype) else math.ceil(len(index) / most)
        axis.set_ticks(range(0, len(index), every), [str(name) for name in index[::every]])
    axes.grid(False)
    axes.set_anchor("W")
    axes.tick_params(labelsize=7, length=2, rotation=0)
    probs = data.groupby("rule", observed=True)[UNEQUAL].first()[rules] if UNEQUAL in data else None
    axes.set(xlabel=f"alignment {alignment(values, probs):.2f}", ylabel="")
