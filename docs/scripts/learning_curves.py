"""Read from learning curves how many examples a variant needs for the loss that another one reaches."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from open_questions_tables import ENDS, ORACLE, words

from modtf.analysis.intervals import intervals
from modtf.analysis.text import short_number


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
        mean (geometric, over tasks), low, high, num_tasks, and text. A task whose curve does not reach the
        loss counts with the largest size, and one whose smallest size is more than enough with that size. The
        mean is then a bound without an interval, and the text says so.
    """
    sizes, tasks = curves.columns.to_list(), curves.index.intersection(others.index)
    needed = np.array(
        [examples_needed(sizes, curves.loc[task].to_list(), others.at[task, size]) for task in tasks]
    )
    logs = np.log(needed.clip(sizes[0], sizes[-1]) / size)
    row = intervals(pd.DataFrame({"data_seed": tasks, "value": logs}), []).iloc[0]
    row[ENDS] = np.exp(row[ENDS].astype(float))
    beyond, within = int(np.isinf(needed).sum()), int((needed == 0).sum())
    if not beyond and not within:
        return {**row, "text": words(row)}
    row[["low", "high"]] = math.nan
    if beyond and within:
        return {**row, "text": "not determined"}
    side = "at least" if beyond else "at most"
    return {**row, "text": f"{side} {short_number(row['mean'])} ({beyond or within} of {len(tasks)} bounds)"}


def examples_saved(losses: pd.DataFrame) -> pd.DataFrame:
    """Return how many times as many examples each variant needs as the oracle with each size but the last.

    Args:
        losses: the columns variant, data_seed, num_train and value.

    Returns:
        variant, num_train (of the oracle), and the values of `multiple`.
    """
    curves = {
        str(name): part.pivot_table(index="data_seed", columns="num_train", values="value")
        for name, part in losses.groupby("variant", sort=False)
    }
    oracle, found = curves.pop(ORACLE, pd.DataFrame()), []
    for variant, curve in curves.items():
        sizes = curve.columns.intersection(oracle.columns)
        for size in sizes[:-1]:
            found.append(
                {"variant": variant, "num_train": size, **multiple(curve[sizes], oracle[sizes], size)}
            )
    return pd.DataFrame(found)
