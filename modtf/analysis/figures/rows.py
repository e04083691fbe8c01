"""Which rows of a study a figure shows, and what panels of them are called."""

from collections.abc import Callable

import pandas as pd

from modtf.analysis.figures.base import NothingToDraw
from modtf.analysis.labels import family_label, with_kinds
from modtf.analysis.performance import headline_label, performance_rows
from modtf.families import FAMILIES
from modtf.metrics import MEASURES, activation_measures


def performance(frame: pd.DataFrame, headline: bool = True) -> pd.DataFrame:
    """How good models are, see `performance_rows`.

    Returns:
        The rows, with what a reader calls them: `title` ("MHA"), `family` ("MHA v2"), `kind` ("MHA v2
        regression") and `panel` ("MHA v2 regression: Loss").

    Raises:
        NothingToDraw: if there are none.
    """
    rows = performance_rows(frame, headline) if len(frame) else frame
    if rows.empty:
        raise NothingToDraw("no loss or error is there")
    rows = with_kinds(rows)
    return rows.assign(
        title=_named(rows, ["arch"], lambda arch: FAMILIES[arch].title),
        family=_named(rows, ["arch", "task_options"], family_label),
        panel=with_measure(rows, "kind"),
    )


def activation(frame: pd.DataFrame) -> pd.DataFrame:
    """The measures of activation, of variants with several modules, with `kind` and `label`, of the measure.

    Raises:
        NothingToDraw: if there are none.
    """
    names = [measure.name for measure in activation_measures()]
    rows = frame[frame["measure"].isin(names) & (frame["num_modules"] > 1)]
    if rows.empty:
        raise NothingToDraw("no variant with several modules was run")
    return with_kinds(rows).assign(label=with_measure(rows))


def with_measure(rows: pd.DataFrame, *columns: str) -> pd.Categorical:
    """The values of some columns and the name of the measure: "regression: in distribution: Loss"."""

    def words(*values: str) -> str:
        *values, name = values
        known = MEASURES.get(name)  # a router's penalty is none
        return ": ".join([*values, known.axis_label if known else name.replace("_", " ")])

    return _named(rows, [*columns, "measure"], words)


def out_of_distribution(rows: pd.DataFrame) -> str:
    """What the headline conditions of the families in the rows are, for a note."""
    said: dict[str, list[str]] = {}
    for arch in rows["arch"].unique():
        said.setdefault(headline_label(arch), []).append(FAMILIES[arch].title)
    return "out of distribution: " + "; ".join(f"{k} ({', '.join(v)})" for k, v in said.items())


def _named(rows: pd.DataFrame, by: list[str], words: Callable[..., str]) -> pd.Categorical:
    """`words(*values of by)` for every row, as a category in the order of those values."""
    keys = rows[by].drop_duplicates().sort_values(by)
    names = pd.Series([words(*key) for key in keys.itertuples(index=False, name=None)], dtype=object)
    places = rows.groupby(by, observed=True, sort=True).ngroup()
    return pd.Categorical(names.iloc[places].to_numpy(), names.unique())
