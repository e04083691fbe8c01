"""Which rows of the results say how good a model is, in and out of distribution."""

import pandas as pd

from modtf.families import FAMILIES, IID

IN, OUT = "in distribution", "out of distribution"


def performance_measure(arch: str, setting: str) -> str:
    """The measure of how well a model of the family does: "loss", "error"."""
    return FAMILIES[arch].performance_measure(setting)


def performance_rows(frame: pd.DataFrame, headline: bool = True) -> pd.DataFrame:
    """The loss of regression and the error of classification, or what else a family is judged by.

    Args:
        frame: as `load_results` or `load_history` gives it.
        headline: keep only two conditions and name them in a new column `distribution`: "in distribution"
            is that of training, "out of distribution" the family's headline condition.

    Example:
        >>> performance_rows(frame).distribution.unique()  # doctest: +SKIP
    """
    kinds = frame[["arch", "setting"]].drop_duplicates().astype(str).itertuples(index=False, name=None)
    keep = pd.Series(False, frame.index)
    outside = pd.Series(False, frame.index)
    for arch, setting in kinds:
        own = (frame["arch"] == arch) & (frame["setting"] == setting)
        own &= frame["measure"] == performance_measure(arch, setting)
        headed = own & (frame["condition"] == FAMILIES[arch].headline)
        keep |= (headed | (own & (frame["condition"] == IID))) if headline else own
        outside |= headed
    if not headline:
        return frame[keep]
    names = pd.Categorical.from_codes(outside[keep].astype(int), categories=[IN, OUT])
    return frame[keep].assign(distribution=names)


def headline_label(arch: str) -> str:
    """What a reader calls the family's out-of-distribution condition: "inputs x 2, 30 tokens"."""
    family = FAMILIES[arch]
    return family.condition(family.headline).label
