"""Judged measures in words, and as a table of text."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.contents import plural
from modtf.analysis.intervals import LEVEL
from modtf.analysis.judged import TRUTH, VERDICTS
from modtf.analysis.text import text_table


def over_kinds(judged: pd.DataFrame) -> pd.DataFrame:
    """One row per measure and `over`: for how many kinds of task each verdict holds, in words.

    Kinds were chosen, not drawn: there is no interval over them.

    Example:
        >>> over_kinds(study.judged_measures)["words"][0]  # doctest: +SKIP
        'tracks in 3 of 4 kinds; undecided in 1'
    """
    rows = []
    for (measure, over), part in judged.groupby(["measure", "over"], observed=True):
        counts = Counter(part["verdict"])
        (first, *others) = [(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]]
        words = [f"{first[0]} in {first[1]} of {plural(len(part), 'kind')}"]
        words += [f"{verdict} in {number}" for verdict, number in others]
        rows.append((measure, over, "; ".join(words)))
    return pd.DataFrame(rows, columns=["measure", "over", "words"])


def judged_cells(judged: pd.DataFrame) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Header and rows of a table for each `over`: a row per measure, a column per kind, then words.

    Args:
        judged: from `judge_measures`. Kinds in which no measure could be ranked have no column.
    """
    tables = {}
    for over, part in judged.groupby("over", observed=True):
        ranked = part.groupby("kind", observed=True)["correlation"].transform("count") > 0
        part = part[ranked] if ranked.any() else part
        kinds = [kind for kind in part["kind"].cat.categories if kind in set(part["kind"])]
        shown = {(row.measure, row.kind): _shown(row) for row in part.itertuples()}
        words = over_kinds(part).set_index("measure")["words"]
        body = [
            [name, *(shown.get((name, kind), "-") for kind in kinds), words[name]] for name in words.index
        ]
        tables[str(over)] = ["measure", *kinds, "over kinds"], body
    return tables


def print_judged(judged: pd.DataFrame, level: float = LEVEL) -> str:
    """The table as text: a block for each `over`, a row per measure, a column per kind; below, what it is."""
    if judged.empty:
        return "No model learned how to use several modules, or none has activation matrices."
    blocks = [f"Among {over}:\n{text_table(*table)}" for over, table in judged_cells(judged).items()]
    note = (
        f"Spearman's rank correlation with {TRUTH} within a task, both turned so that larger is better; "
        f"{level:.0%} Student's t intervals over tasks, on Fisher's z. Models: "
        f"{judged.groupby('kind', observed=True)['num_models'].max().sum()}."
    )
    return "\n\n".join([*blocks, note])


def _shown(row: Any) -> str:
    if not np.isfinite(row.correlation):
        return "-"
    width = "" if np.isnan(row.low) else f" [{row.low:+.2f}, {row.high:+.2f}]"
    return f"{row.correlation:+.2f}{width}"
