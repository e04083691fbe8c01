"""What a figure is given and what it gives back."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure


class NothingToDraw(Exception):  # noqa: N818  no error: the report prints the reason in the figure's place
    """The results hold nothing for a figure; the message says what is missing."""


class NotMeant(NothingToDraw):
    """The figure is one of other families: a report says nothing of it."""


@dataclass(frozen=True)
class Picture:
    """A drawn figure, the numbers in it and what to say about it.

    Example, a figure of one's own in any file given to `--plugin`; every report has it then:
        >>> from modtf.analysis import with_kinds
        >>> from modtf.analysis.figures import NothingToDraw, bars, means, register_figure
        >>> @register_figure("seconds")  # doctest: +SKIP
        ... def draw(study, choice):
        ...     rows = with_kinds(study.results.query("measure == 'seconds'"))
        ...     if rows.empty:
        ...         raise NothingToDraw("no model was timed")
        ...     title = "Seconds of training"
        ...     yield means(study, rows, bars, None, "seconds", title, row="kind", column="num_rules")
    """

    name: str  # of its files
    title: str
    note: str  # the models behind it, and what is missing; also stands in the figure
    figure: Figure
    table: pd.DataFrame


Pictures = Iterator[Picture]


@dataclass(frozen=True)
class Choice:
    """Which cells and which member the activation figures show."""

    data_seed: int | None = None  # None: the first there is
    seed: int | None = None
    num_rules: int | None = None  # of the evolution; None: the middle one
    width: int | None = None  # None: the smallest
