"""What models and kinds of tasks are called, and what each variant looks like: the same in every figure."""

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import NamedTuple

import pandas as pd

from modtf.families import FAMILIES
from modtf.metrics import MEASURES
from modtf.results import KIND

GREY = "#555555"
RANDOM = "random"  # the name of the baseline that picks modules at random


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


def looks(variants: Iterable[str]) -> dict[str, Look]:
    """The look of every variant, in order, `random` last; the palette has spare ones for those of users.

    Args:
        variants: all those of a study, in order, so that each looks the same in all of its figures.
    """
    spare = cycle(SPARE)
    names = [str(name) for name in variants if name != RANDOM]
    return {name: PALETTE.get(name) or next(spare) for name in names} | {RANDOM: PALETTE[RANDOM]}


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds what a reader calls things, as categories in the order of the report.

    Args:
        frame: with the columns of `CELL`, in the order of the report where they are categories.

    Returns:
        The frame with `family` ("MHA v2"), `kind` ("MHA v2\\nregression") and, in `variant`, the options of
        a model ("modular modules=16").
    """
    family = _named(frame, KIND[::2], lambda arch, options: " ".join([FAMILIES[arch].title, *_words(options)]))
    kind = _named(frame.assign(family=family), ["family", "setting"], lambda *names: "\n".join(names))
    variant = _named(frame, ["variant", "model_options"], lambda name, text: f"{name} {text}".strip())
    return frame.assign(family=family, kind=kind, variant=variant)


def measure_label(name: str) -> str:
    """What stands at the axis of a measure, or of a router's penalty."""
    return MEASURES[name].axis_label if name in MEASURES else name.replace("_", " ").capitalize()


def _words(options: str) -> list[str]:
    """ "search=v2,noise=0.1" -> v2, noise=0.1: a word says what it is, a number does not."""
    parts = [part.partition("=") for part in options.split(",") if part]
    return ["".join(part) if part[2][:1].isdigit() else part[2] for part in parts]


def _named(frame: pd.DataFrame, by: Sequence[str], words: Callable[..., str]) -> pd.Categorical:
    """The name of the values of `by` in every row, as a category in the order of those values."""
    by = list(by)
    keys = frame[by].drop_duplicates().sort_values(by)
    names = pd.Series([words(*key) for key in keys.itertuples(index=False, name=None)], dtype=object)
    places = frame.groupby(by, observed=True, sort=True).ngroup()
    return pd.Categorical(names.iloc[places].to_numpy(), names.unique())
