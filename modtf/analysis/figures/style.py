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
# Of Okabe and Ito what is left, then Tol's muted colours; enough for the routers there are.
COLOURS = ("#E69F00", "#56B4E9", "#000000", "#A6761D", "#882255", "#44AA99", "#332288", "#999933", "#AA4499")
MARKERS = "vPX*<>pdh8"


def looks(variants: pd.Series) -> dict[str, Look]:
    """The look of every variant, in order; the palette has spare ones for those of users.

    Args:
        variants: a column as a study has it: its categories are all the study's variants, in order, so that
            each looks the same in all figures.
    """
    spare = map(Look, cycle(COLOURS), cycle(MARKERS))
    names = variants.cat.categories if variants.dtype == "category" else variants.unique()
    return {name: PALETTE.get(name) or next(spare) for name in names}
