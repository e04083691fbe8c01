"""What each variant looks like: the same in every figure."""

from itertools import cycle
from typing import NamedTuple

import pandas as pd

from modtf.analysis.labels import RANDOM
from modtf.families import FAMILIES

GREY = "#555555"


class Look(NamedTuple):
    """How a variant is drawn."""

    colour: str
    marker: str
    line: str = "-"


# Okabe and Ito (2008), told apart with any common colour vision deficiency, brightness too; the families'
# variants have these by their places. Then what is left of them and Tol's muted colours, for other routers.
FIRST = [Look("#D55E00", "s"), Look("#0072B2", "o"), Look("#CC79A7", "^"), Look("#009E73", "D")]
COLOURS = ("#E69F00", "#56B4E9", "#000000", "#A6761D", "#882255", "#44AA99", "#332288", "#999933", "#AA4499")
MARKERS = "vPX*<>pdh8"


def looks(variants: pd.Series) -> dict[str, Look]:
    """The look of every variant, in order.

    Args:
        variants: a column as a study has it: its categories are all the study's variants, in order, so that
            each looks the same in all figures.
    """
    spare = map(Look, cycle(COLOURS), cycle(MARKERS))
    known = {RANDOM: Look("#7F7F7F", "_", "--")}
    for family in FAMILIES.values():
        for variant, look in zip(family.variants, FIRST, strict=False):
            known.setdefault(variant.name, look)
    names = variants.cat.categories if variants.dtype == "category" else variants.unique()
    return {name: known.get(name) or next(spare) for name in names}
