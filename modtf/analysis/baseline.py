"""Every variant against one, on the same task and seed: what it gains, and what that costs."""

import numpy as np
import pandas as pd
from scipy import stats

from modtf.analysis.correction import holm
from modtf.analysis.intervals import LEVEL, MIN_TASKS, t_interval
from modtf.analysis.labels import with_kinds
from modtf.analysis.paired import compare_pairs
from modtf.analysis.performance import performance_rows
from modtf.checks import check_choice
from modtf.metrics import activation_measures
from modtf.results.schema import KIND

BASELINE = "modular"  # what a router that starts from the modules' own scores is, but for its way to p
PLACE = [*KIND, "num_rules"]
SCORED = ["measure", "condition", "distribution"]
NO_CONDITION = "activation"  # the `distribution` of a measure of activation
COLUMNS = ["variant", "kind", *PLACE, *SCORED, "gain", "low", "high", "p", "p_corrected"]
COLUMNS += ["num_tasks", "num_models", "num_missing"]


def against(frame: pd.DataFrame, baseline: str = BASELINE, level: float = LEVEL) -> pd.DataFrame:
    """By how much every variant is better than `baseline`: performance, collapse and specialisation.

    Args:
        frame: rows of `Study.results`.
        baseline: a value of its column `variant`.
        level: of the intervals over data seeds.

    Returns:
        A row per variant, kind, R and score: variant, kind, the columns of `KIND`, num_rules, measure,
        condition, distribution ("in distribution", "out of distribution", "activation"), gain, low, high
        (positive: better than the baseline; of a loss or error the difference as a share of the larger of
        both, -1..1, of a measure of activation in its unit; widths averaged), p (two-sided, of none),
        p_corrected (Holm, over the variants that are compared in a score), num_tasks, num_models (pairs),
        num_missing. p needs three tasks. Empty if nothing was run on the same tasks and seeds.

    Raises:
        ValueError: if the rows hold no such variant.

    Example:
        >>> against(study.results).query("measure == 'collapse_worst'")  # doctest: +SKIP
    """
    variants = list(frame["variant"].drop_duplicates().sort_values())
    check_choice("baseline", baseline, variants)
    names = [measure.name for measure in activation_measures()]
    active = frame[frame["measure"].isin(names) & (frame["num_modules"] > 1)]
    rows = pd.concat([performance_rows(frame), active.assign(distribution=NO_CONDITION)])
    pairs = [(name, baseline) for name in variants if name != baseline]
    table = compare_pairs(rows, pairs, [*PLACE, *SCORED], over=["width"], level=level)
    if table.empty:
        return pd.DataFrame(columns=COLUMNS)
    table["variant"] = pd.Categorical(table["first"], variants)
    is_share = table["distribution"].astype(str) != NO_CONDITION
    for name, end in {"gain": "", "low": "_low", "high": "_high"}.items():
        table[name] = table[f"advantage{end}"].where(is_share, table[f"gain{end}"])
    table["p"] = _two_sided(table, level)
    groups = table.groupby([*PLACE, *SCORED], observed=True)["p"]
    table["p_corrected"] = groups.transform(lambda p: holm(p.tolist()))
    return with_kinds(table)[COLUMNS]


def _two_sided(table: pd.DataFrame, level: float) -> np.ndarray:
    """How probable a mean as far from 0 is, if the true one is 0; NaN of too few tasks for any verdict."""
    number = table["num_tasks"].to_numpy()
    freedom = np.where(number >= MIN_TASKS, number - 1, np.nan)
    reach = t_interval(0.0, np.sqrt(np.maximum(number, 1)), number, level)[1]  # of the interval, in errors
    half = (table["high"] - table["low"]).to_numpy(float) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(table["gain"].to_numpy(float)) * reach / half
    distance = np.where(np.isnan(distance) & (half == 0), 0.0, distance)  # equal in every task
    return 2 * stats.t.sf(distance, freedom)
