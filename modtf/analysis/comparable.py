"""Models that may be compared: one way of training and evaluation for each task type, one checkpoint."""

from collections.abc import Sequence

import pandas as pd

from modtf.analysis.labels import kind_label
from modtf.base.checks import check_choice, check_names
from modtf.results.schema import CELL, CHECKPOINTS, KIND, MEMBER, SCORE

POOLED = "pooled"  # the mean of last and best for each model, as in the main figures of the released code
CHOICES = (*CHECKPOINTS, POOLED)


def select_protocols(frame: pd.DataFrame, protocols: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows of the given protocols; by default all rows.

    Raises `ValueError` if no cell followed one; otherwise see `check_ways`.
    """
    for protocol in check_names("protocols", protocols):
        check_choice("protocol", protocol, sorted(frame["protocol"].unique()) or ["(none)"])
    if protocols:
        frame = frame[frame["protocol"].isin(protocols)]
    check_ways(frame)
    return frame


def check_ways(frame: pd.DataFrame) -> None:
    """Raise `ValueError` if models of a task type were trained or evaluated in ways that cannot be compared.

    They may differ in the learning rate alone, and one variant of one R and width may not even differ in
    that. Rows that do not tell how models were trained pass.
    """
    if not {*CELL, "protocol", "folder"} <= set(frame):
        return
    ways = frame.drop_duplicates([*CELL, "protocol", "folder"])
    for kind, rows in ways.groupby(list(KIND), observed=True):
        by_protocol = rows.groupby("protocol", observed=True)["folder"].agg(["size", "first"])
        apart_from_the_rate = {str(protocol).partition("@")[0] for protocol in by_protocol.index}
        rates = rows.groupby(list(CELL), observed=True)["protocol"].nunique()
        if len(apart_from_the_rate) > 1 or rates.max() > 1:
            listed = "; ".join(
                f"{p}: {r['size']} cell(s), such as {r['first']}" for p, r in by_protocol.iterrows()
            )
            raise ValueError(
                f"The {kind_label(*map(str, kind))} cells were trained or evaluated in {len(by_protocol)} "
                f"different ways, which cannot be compared ({listed}). Choose one by --protocol "
                "(protocols=[...]), or give another folder."
            )


def check_checkpoint(frame: pd.DataFrame, checkpoint: str) -> None:
    """Raise `ValueError` unless the models of all rows have a checkpoint."""
    models = frame.drop_duplicates([*MEMBER, "protocol", "checkpoint"])
    counts = models["checkpoint"].value_counts()
    whole = set(counts.index[counts == len(models.drop_duplicates([*MEMBER, "protocol"]))])
    if not whole.issuperset(parts_of(checkpoint)) and len(frame):
        others = f"Choose --checkpoint={sorted(whole)[-1]}, or give" if whole else "Give"
        raise ValueError(
            f"Only some models have the checkpoint {checkpoint!r}, so the others would be left out of every "
            f"comparison. {others} another folder."
        )


def parts_of(checkpoint: str) -> tuple[str, ...]:
    """Return the checkpoints whose mean is a checkpoint."""
    return ("last", "best") if checkpoint == POOLED else (checkpoint,)


def select_checkpoint(frame: pd.DataFrame, checkpoint: str) -> pd.DataFrame:
    """Return the rows of one checkpoint; "pooled" is the mean of last and best.

    Raises `ValueError` if the rows lack it."""
    check_choice("checkpoint", checkpoint, CHOICES)
    names = [str(name) for name in frame["checkpoint"].unique()]
    wanted = parts_of(checkpoint)
    lacking = [name for name in wanted if name not in names]
    if len(frame) and lacking:
        raise ValueError(
            f"The results do not have the checkpoint {lacking[0]!r}, only {', '.join(names)}. Choose "
            f"--checkpoint={names[0]}."
        )
    rows = frame[frame["checkpoint"].isin(wanted)]
    return _pooled(rows) if checkpoint == POOLED else rows


def _pooled(rows: pd.DataFrame) -> pd.DataFrame:
    key = [*MEMBER, *(name for name in SCORE if name != "checkpoint"), "protocol"]
    # the sum of a model that diverged is not finite, so that it stays diverged; a mean would skip it
    means = rows.groupby(key, observed=True)["value"].agg(lambda v: v.sum(skipna=False) / len(v))
    once = rows.drop_duplicates(key).drop(columns="value")
    pooled = once.merge(means.reset_index(), on=key)[list(rows)]
    return pooled.assign(checkpoint=pd.Categorical([POOLED] * len(pooled)))
