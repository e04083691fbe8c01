"""What a study holds, what it lacks, and what diverged."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from modtf.analysis.labels import with_kinds
from modtf.analysis.performance import performance_rows
from modtf.families import IID
from modtf.results.schema import MEMBER


def contents(results: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of task: kind, R, widths, variants, tasks, seeds, cells, models, diverged, protocol.

    Args:
        results: of a study.
    """
    members = with_kinds(results.drop_duplicates([*MEMBER, "protocol"]))
    lost = with_kinds(diverged(results)).groupby("kind", observed=False).size()
    rows = []
    for kind, models in members.groupby("kind", observed=True):
        rows.append(
            {
                "kind": kind,
                "R": listing(models["num_rules"]),
                "widths": listing(models["width"]),
                "variants": listing(models["variant"]),
                "tasks": models["data_seed"].nunique(),
                "seeds": models["seed"].nunique(),
                "cells": models["folder"].nunique(),
                "models": len(models),
                "diverged": int(lost.get(kind, 0)),
                "protocol": listing(models["protocol"]),
            }
        )
    names = ["kind", "R", "widths", "variants", "tasks", "seeds", "cells", "models", "diverged", "protocol"]
    return pd.DataFrame(rows, columns=names)


def diverged(results: pd.DataFrame) -> pd.DataFrame:
    """Models whose performance in distribution is not finite: the columns of `MEMBER` and `folder`."""
    rows = performance_rows(results, headline=False)
    rows = rows[(rows["condition"] == IID) & ~np.isfinite(rows["value"])]
    return rows.drop_duplicates(list(MEMBER))[[*MEMBER, "folder"]].reset_index(drop=True)


def describe(results: pd.DataFrame, checkpoint: str, num_missing: int | None) -> str:
    """What a notebook shows of a study."""
    table = contents(results)
    head = (
        f"Study of {plural(table['models'].sum(), 'model')} in {plural(table['cells'].sum(), 'cell')}, "
        f"checkpoint {checkpoint}"
    )
    lines = [
        f"  {row['kind']}: R = {row['R']}; width {row['widths']}; {row['variants']}; "
        f"{plural(row['tasks'], 'task')} x {plural(row['seeds'], 'seed')}"
        + (f"; {row['diverged']} diverged" if row["diverged"] else "")
        for row in table.to_dict("records")
    ]
    if num_missing is not None:
        missing = plural(num_missing, "cell") if num_missing else "nothing"
        lines.append(f"  missing from the grid that they span: {missing}")
    return "\n".join([head, *lines])


def listing(values: Sequence | pd.Series) -> str:
    """The distinct values, in order, as text."""
    return ", ".join(str(value) for value in pd.Series(values).drop_duplicates().sort_values())


def plural(count: int, word: str) -> str:
    """ "1 task", "2 tasks"."""
    return f"{count} {word}" + ("" if count == 1 else "s")
