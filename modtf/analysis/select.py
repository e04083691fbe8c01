"""Which rows of the results may be compared with each other: one protocol a kind, one checkpoint.

Variants may differ in their learning rate: a comparison is fair where each has the one that suits it.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from modtf.analysis.labels import kind_label
from modtf.checks import check_choice, check_names
from modtf.results.schema import CELL, CHECKPOINTS, COLUMNS, KIND, MEMBER, SCORE

POOLED = "pooled"  # last and best, averaged model by model: what the main figures of the released code show
CHOICES = (*CHECKPOINTS, POOLED)


def check_results(frame: Any) -> None:
    """Raises `ValueError` unless it is a table with the columns that `load_results` gives."""
    needed = [name for name in COLUMNS if name != "place"]  # which older tables lack
    lacking = [name for name in needed if name not in frame] if isinstance(frame, pd.DataFrame) else ["all"]
    if lacking:
        raise ValueError(
            f"results lacks the columns {', '.join(lacking)}; expected the table of modtf.load_results."
        )


def select_protocols(frame: pd.DataFrame, protocols: Sequence[str] = ()) -> pd.DataFrame:
    """The rows of the given protocols, all if none is given.

    Raises:
        ValueError: if no cell followed a protocol, or a kind of task was trained in more than one way, so
            that its models cannot be compared: in more than the learning rate, or one variant of one R and
            width at several.
    """
    for protocol in check_names("protocols", protocols):
        check_choice("protocol", protocol, sorted(frame["protocol"].unique()) or ["(none)"])
    if protocols:
        frame = frame[frame["protocol"].isin(protocols)]
    ways = frame.drop_duplicates([*CELL, "protocol", "folder"])
    for kind, rows in ways.groupby(list(KIND), observed=True):
        found = rows.groupby("protocol", observed=True)["folder"].agg(["size", "first"])
        apart_from_the_rate = {str(protocol).partition("@")[0] for protocol in found.index}
        rates = rows.groupby(list(CELL), observed=True)["protocol"].nunique()
        if len(apart_from_the_rate) > 1 or rates.max() > 1:
            listing = "; ".join(
                f"{p}: {r['size']} cell(s), such as {r['first']}" for p, r in found.iterrows()
            )
            raise ValueError(
                f"The {kind_label(*map(str, kind))} cells were trained or evaluated in {len(found)} "
                f"different ways, which cannot be compared ({listing}). Choose one with --protocol "
                "(protocols=[...]), or give another folder."
            )
    return frame


def select_checkpoint(frame: pd.DataFrame, checkpoint: str) -> pd.DataFrame:
    """The rows of one checkpoint; "pooled" is the mean of last and best.

    Raises:
        ValueError: if the results do not hold it.
    """
    check_choice("checkpoint", checkpoint, CHOICES)
    found = [str(name) for name in frame["checkpoint"].unique()]
    wanted = ("last", "best") if checkpoint == POOLED else (checkpoint,)
    lacking = [name for name in wanted if name not in found]
    if len(frame) and lacking:
        raise ValueError(
            f"The results hold no checkpoint {lacking[0]!r}, only {', '.join(found)}. "
            f"Choose --checkpoint={found[0]}."
        )
    rows = frame[frame["checkpoint"].isin(wanted)]
    return _pooled(rows) if checkpoint == POOLED else rows


def _pooled(rows: pd.DataFrame) -> pd.DataFrame:
    key = [*MEMBER, *(name for name in SCORE if name != "checkpoint"), "protocol"]
    # a sum, unlike a mean, is not finite where one of the two is not: a model that diverged stays one
    means = rows.groupby(key, observed=True)["value"].agg(
        lambda values: values.sum(skipna=False) / len(values)
    )
    once = rows.drop_duplicates(key).drop(columns="value")
    pooled = once.merge(means.reset_index(), on=key)[list(rows)]
    return pooled.assign(checkpoint=pd.Categorical([POOLED] * len(pooled)))
