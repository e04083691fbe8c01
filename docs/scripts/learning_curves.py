"""Read from learning curves how many examples a variant needs for the loss that another one reaches."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sources import ENDS

from modtf.analysis.intervals import intervals
from modtf.pages.text import with_interval

ORACLE = "gt_modular"


def examples_needed(sizes: Sequence[float], losses: Sequence[float], target: float) -> float:
    """Return the number of training examples at which a learning curve first reaches a loss.

    Between two sizes the logarithm of the loss is linear in the logarithm of the size. The result is infinite
    if no size is enough. If the smallest size is already enough, it is 0.

    Example:
        >>> examples_needed([100, 400], [0.4, 0.1], 0.2)  # loss ~ 1 / size
        200.0
    """
    for n, (size, loss) in enumerate(zip(sizes, losses, strict=True)):
        if loss <= target:
            if n == 0:
                return float(size) if loss == target else 0.0
            share = math.log(losses[n - 1] / target) / math.log(losses[n - 1] / loss)
            return float(sizes[n - 1] * (size / sizes[n - 1]) ** share)
    return math.inf


def multiple(curves: pd.DataFrame, others: pd.DataFrame, size: float) -> dict[str, object]:
    """Return how many times as many examples curves need for the losses that others have with `size`.

    Args:
        curves: losses [tasks, sizes]; the columns are sizes in ascending order.
        others: losses of the same form.
        size: a column.

    Returns:
        mean (geometric, over tasks), low, high, num_tasks, side and bound. A task whose curve does not reach
        the loss counts with the largest size, and one whose smallest size is more than enough with that size.
        The mean is then a bound without an interval: `side` is "more than", "less than", or names both if the
        tasks differ; otherwise it is "". `bound` says in how many tasks.
    """
    sizes, tasks = curves.columns.to_list(), curves.index.intersection(others.index)
    needed = np.array(
        [examples_needed(sizes, curves.loc[task].to_list(), others.at[task, size]) for task in tasks]
    )
    logs = np.log(needed.clip(sizes[0], sizes[-1]) / size)
    row = intervals(pd.DataFrame({"data_seed": tasks, "value": logs}), []).iloc[0]
    row[ENDS] = np.exp(row[ENDS].astype(float))
    sides = {"more than": np.isinf(needed).sum(), "less than": (needed == 0).sum()}
    bounds = [side for side, count in sides.items() if count]
    if bounds:
        row[["low", "high"]] = math.nan
    count = sum(sides.values())
    return {**row, "side": " or ".join(bounds), "bound": f"bound in {count} of {len(tasks)} tasks"}


def examples_of(losses: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return how many examples each variant needs for the oracle's losses, and the oracle for each variant's.

    Args:
        losses: the columns variant, data_seed, num_train and value.

    Returns:
        Two tables with variant, num_train (of the model whose loss is reached), the values of `multiple`, and
        text: a multiple of num_train in the first table, a number of examples in the second.
    """
    curves = {
        str(name): part.pivot_table(index="data_seed", columns="num_train", values="value")
        for name, part in losses.groupby("variant", sort=False)
    }
    oracle, needed, matched = curves.pop(ORACLE, pd.DataFrame()), [], []
    for variant, curve in curves.items():
        sizes = curve.columns.intersection(oracle.columns)
        for size in sizes:
            same = {"variant": variant, "num_train": size, "column": f"{size:,.0f} examples"}
            if size < sizes[-1]:
                needed.append(same | _in_words(multiple(curve[sizes], oracle[sizes], size)))
            matched.append(same | _in_words(multiple(oracle[sizes], curve[sizes], size), size))
    return pd.DataFrame(needed), pd.DataFrame(matched)


def _in_words(row: dict[str, object], size: float | None = None) -> dict[str, object]:
    """Return the row with its text: multiples, or with a size numbers of examples."""
    numbers = pd.Series({name: float(row[name]) * (size or 1) for name in ENDS})
    if row["side"] in ("more than", "less than"):
        bound = numbers["mean"]
        shown = f"{bound:,.0f}" if bound >= 100 else f"{bound:.3g}"
        return {**row, "text": f"{row['side']} {shown} ({row['bound']})"}
    if row["side"]:  # both: the curves of some tasks end above the loss, and those of others begin below it
        return {**row, "text": "not determined"}
    if size is None:
        return {**row, "text": with_interval(*numbers)}
    return {**row, "text": with_interval(*numbers, ",.0f")}
