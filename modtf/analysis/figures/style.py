"""What each variant looks like: the same in every figure."""

from itertools import cycle
from typing import NamedTuple

import pandas as pd

from modtf.analysis.labels import RANDOM

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
SPARE = (Look("#E69F00", "v"), Look("#56B4E9", "P"), Look("#000000", "X"), Look("#A6761D", "*"))


def looks(variants: pd.Series) -> dict[str, Look]:
    """The look of every variant, in order; the palette has spare ones for those of users.

    Args:
        variants: a column as a study has it: its categories are all the study's variants, in order, so that
            each looks the same in all figures.
    """
    spare = cycle(SPARE)
    names = variants.cat.categories if variants.dtype == "category" else variants.unique()
    return {name: PALETTE.get(name) or next(spare) for name in names}
