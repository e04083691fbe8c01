"""Which rows of a study a figure shows, and what panels of them are called."""

import pandas as pd

from modtf.analysis.figures.base import NothingToDraw
from modtf.analysis.labels import RANDOM, categorise, family_label, with_kinds
from modtf.analysis.rows import activation_rows, performance_rows, random_baseline
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
    rows["title"] = categorise(rows, ["arch"], lambda arch: FAMILIES[arch].title)
    rows["family"] = categorise(rows, ["arch", "task_options"], family_label)
    rows["panel"] = categorise(rows, ["kind", "measure"], _with_measure)
    if headline:
        rows["where"] = categorise(rows, ["setting", "distribution", "measure"], _with_measure)
    return rows


def activation(frame: pd.DataFrame) -> pd.DataFrame:
    """The measures of activation, of variants with several modules and of "random", modules picked at random.

    Returns:
        The rows, with `kind`, and `label`, of the measure.

    Raises:
        NothingToDraw: if there are none.
    """
    rows = activation_rows(frame)
    if rows.empty:
        raise NothingToDraw("no variant with several modules was run")
    single = rows[rows["place"] == ""]  # of a model's several places, rules and modules are others
    sizes = single.drop_duplicates([*KIND, "num_rules", "width", "measure"])
    chance = random_baseline(rows["num_rules"])
    chance = sizes.drop(columns=["variant", "value"]).merge(chance, on=["num_rules", "measure"])
    variants = [*rows["variant"].cat.categories, RANDOM]
    both = pd.concat([rows, chance.assign(model_options="")], ignore_index=True)
    both["variant"] = pd.Categorical(both["variant"].astype(str), variants)
    both["measure"] = pd.Categorical(both["measure"].astype(str), [m.name for m in activation_measures()])
    return with_kinds(both).assign(label=categorise(both, ["measure", "place"], _with_place))


def _with_place(measure: str, place: str) -> str:
    """("alignment", "encoder") -> "Alignment: encoder", in two lines of a panel's title."""
    return f"{_with_measure(measure)}: {place}" if place else _with_measure(measure)


def _with_measure(*values: str) -> str:
    """("regression", "loss") -> "regression: Loss"."""
    measure = MEASURES[values[-1]]
    better = " (larger is better)" if measure.smaller_is_better is False else ""
    return ": ".join([*values[:-1], measure.axis_label + better])
