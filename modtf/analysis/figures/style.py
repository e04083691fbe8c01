"""Colours, markers and words: the same for a variant in every figure."""

from collections.abc import Iterable, Sequence

import pandas as pd

from modtf.results.schema import VARIANTS

# Okabe and Ito (2008), told apart with any common colour vision deficiency; brightness differs too.
COLOURS = {
    "monolithic": "#D55E00",
    "modular": "#0072B2",
    "modular_op": "#CC79A7",
    "gt_modular": "#009E73",
    "random": "#7F7F7F",
}
MARKERS = {"monolithic": "s", "modular": "o", "modular_op": "^", "gt_modular": "D", "random": ""}
SPARE_COLOURS = ("#E69F00", "#56B4E9", "#F0E442", "#000000")  # for variants of users
SPARE_MARKERS = ("v", "P", "X", "*")
GREY = "#555555"

FAMILIES = ("mlp", "mha v1", "mha v2", "rnn")
SETTINGS = ("regression", "classification")


def in_order(found: Iterable[str], order: Sequence[str]) -> list[str]:
    """The distinct values found: those of `order` first, in its order, then the others sorted."""
    values = set(found)
    return [v for v in order if v in values] + sorted(values - set(order))


def variants_in(frame: pd.DataFrame) -> list[str]:
    """The variants of a table, from least to most informed, `random` last."""
    names = in_order(frame["variant"], (*VARIANTS, "random"))
    return [n for n in names if n != "random"] + [n for n in names if n == "random"]


def colour(variant: str, variants: Sequence[str]) -> str:
    """The colour of a variant among those shown."""
    return COLOURS.get(variant) or _spare(variant, variants, SPARE_COLOURS)


def marker(variant: str, variants: Sequence[str]) -> str:
    """The marker of a variant among those shown."""
    return MARKERS[variant] if variant in MARKERS else _spare(variant, variants, SPARE_MARKERS)


def _spare(variant: str, variants: Sequence[str], spares: Sequence[str]) -> str:
    others = [name for name in variants if name not in COLOURS]
    return spares[others.index(variant) % len(spares)]


def with_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds `family` ("mha v2") and `kind` ("mha v2\\nregression"), the row labels of the figures."""
    family = (frame["arch"] + " " + frame["search"]).str.strip()
    return frame.assign(family=family, kind=family + "\n" + frame["setting"])


def kinds_in(frame: pd.DataFrame) -> list[str]:
    """The `kind`s of a table in the order of the report."""
    return in_order(frame["kind"], [f"{family}\n{setting}" for family in FAMILIES for setting in SETTINGS])
