"""Which rows of a study a figure shows, and what panels of them are called."""

from collections.abc import Callable

import pandas as pd

from modtf.analysis.figures.base import NothingToDraw
from modtf.analysis.labels import RANDOM, family_label, with_kinds
from modtf.analysis.performance import performance_rows
from modtf.analysis.random_baseline import random_baseline
from modtf.families import FAMILIES
from modtf.metrics import MEASURES, activation_measures
from modtf.results import KIND


def performance(frame: pd.DataFrame, headline: bool = True) -> pd.DataFrame:
    """How good models are, see `performance_rows`.

    Returns:
        The rows, with what a reader calls them: `title` ("MHA"), `family` ("MHA v2"), `kind` ("MHA v2
        regression"), `panel` ("MHA v2 regression: Loss") and, of headlines, `where` ("regression: in
        distribution: Loss").

    Raises:
        NothingToDraw: if there are none.
    """
    rows = performance_rows(frame, headline) if len(frame) else frame
    if rows.empty:
        raise NothingToDraw("no loss or error is there")
    rows = with_kinds(rows)
    rows["title"] = _named(rows, ["arch"], lambda arch: FAMILIES[arch].title)
    rows["family"] = _named(rows, ["arch", "task_options"], family_label)
    rows["panel"] = _named(rows, ["kind", "measure"], _with_measure)
    if headline:
        rows["where"] = _named(rows, ["setting", "distribution", "measure"], _with_measure)
    return rows


def activation(frame: pd.DataFrame) -> pd.DataFrame:
    """The measures of activation, of variants with several modules and of "random", modules picked at random.

    Returns:
        The rows, with `kind`, and `label`, of the measure.

    Raises:
        NothingToDraw: if there are none.
    """
    names = [measure.name for measure in activation_measures()]
    rows = frame[frame["measure"].isin(names) & (frame["num_modules"] > 1)]
    if rows.empty:
        raise NothingToDraw("no variant with several modules was run")
    sizes = rows.drop_duplicates([*KIND, "num_rules", "width", "measure"]).drop(columns=["variant", "value"])
    chance = sizes.merge(random_baseline(rows["num_rules"]), on=["num_rules", "measure"])
    variants = [*rows["variant"].cat.categories, RANDOM]
    both = pd.concat([rows, chance.assign(model_options="")], ignore_index=True)
    both["variant"] = pd.Categorical(both["variant"].astype(str), variants)
    both["measure"] = pd.Categorical(both["measure"].astype(str), names)
    return with_kinds(both).assign(label=_named(both, ["measure"], _with_measure))


def _with_measure(*values: str) -> str:
    """("regression", "loss") -> "regression: Loss"."""
    measure = MEASURES[values[-1]]
    better = " (larger is better)" if measure.smaller_is_better is False else ""
    return ": ".join([*values[:-1], measure.axis_label + better])


def _named(rows: pd.DataFrame, by: list[str], words: Callable[..., str]) -> pd.Categorical:
    """`words(*values of by)` for every row, as a category in the order of those values."""
    keys = rows[by].drop_duplicates().sort_values(by)
    names = pd.Series([words(*key) for key in keys.itertuples(index=False, name=None)], dtype=object)
    places = rows.groupby(by, observed=True, sort=True).ngroup()
    return pd.Categorical(names.iloc[places].to_numpy(), names.unique())
