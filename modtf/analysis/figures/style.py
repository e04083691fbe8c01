"""What each variant looks like and each measure is called: the same in every figure."""

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import NamedTuple

import pandas as pd

from modtf.analysis.labels import RANDOM, in_variant_order
from modtf.metrics import MEASURES

GREY = "#555555"


class Look(NamedTuple):
    """How a variant is drawn."""

    colour: str
    marker: str
    line: str = "-"


# Okabe and Ito (2008), told apart with any common colour vision deficiency; brightness differs too.
PALETTE = {
    "monolithic": Look("#D55E00", "s"),
    "modular": Look("#0072B2", "o"),
    "modular_op": Look("#CC79A7", "^"),
    "gt_modular": Look("#009E73", "D"),
    RANDOM: Look("#7F7F7F", "_", "--"),
}
SPARE = tuple(Look(*look) for look in zip(("#E69F00", "#56B4E9", "#000000", "#A6761D"), "vPX*", strict=True))


def looks(variants: pd.Series) -> dict[str, Look]:
    """The look of every variant, in order; the palette has spare ones for those of users.

    Args:
        variants: a column as a study has it: its categories are all those of the study, so that each looks
            the same in all of its figures.
    """
    spare = cycle(SPARE)
    names = variants.cat.categories if variants.dtype == "category" else variants.unique()
    return {name: PALETTE.get(name) or next(spare) for name in in_variant_order(names)}


def named(frame: pd.DataFrame, by: Sequence[str], words: Callable[..., str]) -> pd.Categorical:
    """The name `words(*values of by)` of every row, as a category in the order of those values."""
    by = list(by)
    keys = frame[by].drop_duplicates().sort_values(by)
    names = pd.Series([words(*key) for key in keys.itertuples(index=False, name=None)], dtype=object)
    places = frame.groupby(by, observed=True, sort=True).ngroup()
    return pd.Categorical(names.iloc[places].to_numpy(), names.unique())


def measure_label(name: str) -> str:
    """What stands at the axis of a measure, or of a router's penalty."""
    return MEASURES[name].axis_label if name in MEASURES else name.replace("_", " ").capitalize()
