"""Which rows of a study a figure shows."""

import pandas as pd

from modtf.analysis.figures.base import NothingToDraw
from modtf.analysis.labels import with_labels
from modtf.analysis.performance import headline_label, performance_rows
from modtf.families import FAMILIES
from modtf.metrics import activation_measures


def performance(frame: pd.DataFrame, headline: bool = True) -> pd.DataFrame:
    """How good models are, see `performance_rows`, with labels and `title`, the family's without options.

    Raises:
        NothingToDraw: if there are no such rows.
    """
    rows = performance_rows(frame, headline) if len(frame) else frame
    if rows.empty:
        raise NothingToDraw("no loss or error is there")
    return with_labels(rows).assign(title=rows["arch"].map({arch: FAMILIES[arch].title for arch in rows["arch"].unique()}))


def out_of_distribution(rows: pd.DataFrame) -> str:
    """What the headline conditions of the families in the rows are, for a note."""
    said: dict[str, list[str]] = {}
    for arch in rows["arch"].unique():
        said.setdefault(headline_label(arch), []).append(FAMILIES[arch].title)
    return "out of distribution: " + "; ".join(f"{k} ({', '.join(v)})" for k, v in said.items())


def activation(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the measures of activation, of variants with several modules, with labels.

    Raises:
        NothingToDraw: if there are none.
    """
    measures = {measure.name: measure.axis_label for measure in activation_measures()}
    rows = frame[frame["measure"].isin(measures) & (frame["num_modules"] > 1)]
    if rows.empty:
        raise NothingToDraw("no variant with several modules was run")
    return with_labels(rows).assign(label=rows["measure"].map(measures))
