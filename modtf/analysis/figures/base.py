"""What a figure is given and what it gives back."""

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure


class NothingToDraw(Exception):  # noqa: N818  no error: the report prints the reason in the figure's place
    """The results hold nothing for a figure; the message says what is missing."""


@dataclass(frozen=True)
class Picture:
    """A drawn figure, the numbers in it and what to say about it."""

    name: str  # of its files
    title: str
    note: str  # the models behind it, and what is missing; also stands in the figure
    figure: Figure
    table: pd.DataFrame


@dataclass(frozen=True)
class Choice:
    """Which cells and which member the activation figures show."""

    data_seed: int | None = None  # None: the first there is
    seed: int | None = None
    num_rules: int | None = None  # of the evolution; None: the middle one
    width: int | None = None  # None: the smallest
