"""Which measures track specialisation: their rank correlation with alignment, where the rules are known.

Alignment compares with the truth, so whoever does not know it has other measures. A correlation is computed
among the models of one data seed; then one interval is taken over data seeds, as everywhere.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from modtf.analysis.intervals import LEVEL, MIN_TASKS, UNIT, intervals
from modtf.analysis.labels import at_place, categorise, with_kinds
from modtf.analysis.text import plural, text_table
from modtf.evaluation.measures import measure_members
from modtf.metrics import GROUPS, MEASURES, activation_measures
from modtf.results import KIND

TRUTH = "alignment"
ALL, BY_RULES = "routers and R", "routers at one R"
OVER = (ALL, BY_RULES)  # among which models a correlation is
LEAST = 3  # models: the ranks of two always agree or disagree
BORDER = 0.5  # of a correlation, chosen before there were results: a measure that tracks lies above it
TRACKS, DOES_NOT, MISLEADS = "tracks", "does not track", "misleads"
UNDECIDED, NOT_ENOUGH, UNDEFINED = "undecided", "not enough runs", "undefined"
VERDICTS = (TRACKS, DOES_NOT, MISLEADS, UNDECIDED, NOT_ENOUGH, UNDEFINED)
WITHIN = ("num_rules", "width", "variant")  # a kind
FIXED = 1e-6  # an activation that never changes by more was not learned
DIGITS = 9  # of a measure: what differs behind them is rounding, and has no rank
STATISTICS = ("correlation", "low", "high", "num_tasks", "num_undefined", "num_points", "num_models")
COLUMNS = ["measure", "kind", "over", *STATISTICS, "num_missing", "verdict"]


def learned_measures(study: Any) -> pd.DataFrame:
    """Every measure of the activation matrices of the models of a study that learned to use their modules.

    Left out are models of one module, and those whose activation is the same at every evaluation, the one
    before training included: `gt_modular`, `uniform`. Their alignment is chosen, not learned, and two extreme
    points would correlate whatever is not constant. At "tail" a measure is the mean over the last
    evaluations.

    Returns:
        One row per model: the columns of `KIND`, num_rules, width, variant, place, data_seed, seed, then the
        measures; NaN for a model that diverged.
    """
    rows = [
        pd.DataFrame(_measured(found.evaluations(study.checkpoint))).assign(
            **{name: found.cell[name] for name in (*KIND, *WITHIN)},
            place=found.place,
            data_seed=found.data_seeds,
            seed=found.seeds,
        )
        for place in study.places
        for found in study.activations(place)
        if found.last.shape[-1] > 1 and (np.abs(found.history - found.history[0]) > FIXED).any()
    ]
    names = [measure.name for measure in activation_measures(GROUPS)]
    columns = [*KIND, *WITHIN, "place", UNIT, "seed", *names]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def _measured(matrices: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """measure -> values `[P]`: the mean over E of those of `[E, P, R, M]`."""
    found = measure_members(matrices.reshape(-1, *matrices.shape[2:]), groups=GROUPS)
    return {name: values.reshape(matrices.shape[:2]).mean(axis=0) for name, values in found.items()}


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's rank correlation of two numbers of the same models, `[N]`, equal ones sharing a mean rank.

    Returns:
        -1..1; NaN for fewer than 3 models, or where one of the two is the same for all.

    Example:
        >>> rank_correlation([0.1, 0.2, 0.3], [1, 10, 100])
        1.0
    """
    ranks = [stats.rankdata(np.round(np.asarray(values, np.float64), DIGITS)) for values in (first, second)]
    if len(ranks[0]) < LEAST or min(map(np.ptp, ranks)) == 0:
        return float("nan")
    x, y = (r - r.mean() for r in ranks)
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def fisher_z(correlation: float, number: int) -> float:
    """artanh of the correlation of N models, held 1/N^2 away from -1 and 1, where it would be infinite.

    Correlations near 1 are skewed: Student's t of them covers the truth too rarely, of their z it does not.
    """
    largest = 1 - 1 / number**2
    return float(np.arctanh(np.clip(correlation, -largest, largest)))


def judge_measures(models: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
    """Does a measure say of models what alignment says?

    Both are turned so that larger is better (a measure without a better end is left as it is), so that a
    positive correlation tracks specialisation and a negative one misleads. Models of one data seed that
    differ in seed alone are averaged first, then ranked: "routers and R", all of them; "routers at one R",
    those of each R apart, whose mean is taken. Many measures grow with R, as alignment does: then the first
    is what R does to both, and the second what routers do.

    Args:
        models: as `learned_measures` gives them.
        level: of the intervals.

    Returns:
        One row per measure, kind and `over`: measure, kind, over, correlation, low, high, num_tasks,
        num_undefined (tasks in which the measure, or alignment, is the same for all, or there are fewer than
        3 models), num_points (models that are ranked in a task, seeds averaged, the most there are),
        num_models (all behind the row), num_missing (models of which the measure, or alignment, has no value:
        they diverged, or use a single module, so that `expert_overlap` has no pair), verdict. A measure
        "tracks" if its whole interval lies above 0.5, "misleads" if it lies below 0, "does not track" if it
        lies below 0.5.
    """
    names = [m.name for m in activation_measures(GROUPS) if m.name in models and m.name != TRUTH]
    if models.empty or not names:
        return pd.DataFrame(columns=COLUMNS)
    models = with_kinds(models)
    if "place" in models and any(models["place"]):  # each routed layer is judged apart
        models["kind"] = categorise(models, ["kind", "place"], at_place)
    found, by = pd.DataFrame([row for name in names for row in _of_measure(models, name)]), COLUMNS[:3]
    for name, order in zip(by, (names, models["kind"].cat.categories, OVER), strict=True):
        found[name] = pd.Categorical(found[name], list(order))
    groups = found.groupby(by, observed=True)
    table = intervals(found, by, "z", level).set_index(by)
    correlations = groups["correlation"]
    same = correlations.max() - correlations.min() < 1e-9  # -1 and 1 among them, which z does not reach
    for name in ("mean", "low", "high"):
        table[name] = np.tanh(table[name]).mask(same & table[name].notna(), correlations.mean())
    table["num_undefined"] = table.pop("num_missing")
    table["num_points"] = groups["num_points"].max()
    table[["num_models", "num_missing"]] = groups[["num_models", "num_missing"]].sum()
    table = table.rename(columns={"mean": "correlation"}).reset_index()
    table["verdict"] = [_verdict(row) for row in table.itertuples()]
    return table[COLUMNS]


def _of_measure(models: pd.DataFrame, name: str) -> Iterator[dict[str, Any]]:
    """A row for every kind, data seed and `over`."""
    turned = -1.0 if MEASURES[name].smaller_is_better else 1.0
    for (kind, data_seed), part in models.groupby(["kind", UNIT], observed=True):
        finite = part[np.isfinite(part[[name, TRUTH]].to_numpy(float)).all(axis=1)]
        points = finite.groupby(list(WITHIN), observed=True)[[name, TRUTH]].mean()
        shared = {"measure": name, "kind": kind, UNIT: data_seed, "num_models": len(finite)}
        shared |= {"num_missing": len(part) - len(finite)}
        of_rules = [one for _, one in points.groupby("num_rules")]
        for over, groups in ((ALL, [points]), (BY_RULES, of_rules)):
            pairs = [(rank_correlation(turned * one[name], -one[TRUTH]), len(one)) for one in groups]
            known = [(rho, fisher_z(rho, number)) for rho, number in pairs if np.isfinite(rho)]
            rho, z = np.mean(known, axis=0) if known else (np.nan, np.nan)
            most = max((number for _, number in pairs), default=0)
            yield {**shared, "over": over, "correlation": rho, "z": z, "num_points": most}


def _verdict(row: Any) -> str:
    if row.num_tasks == 0:
        return UNDEFINED
    if row.num_tasks < MIN_TASKS:
        return NOT_ENOUGH
    if row.low > BORDER:
        return TRACKS
    if row.high < BORDER:
        return MISLEADS if row.high < 0 else DOES_NOT
    return UNDECIDED


def judged_cells(judged: pd.DataFrame) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Header and rows of a table for each `over`: a row per measure, a column per kind, then words.

    Kinds were chosen, not drawn: there is no interval over them. Those without any ranks have no column.
    """
    tables = {}
    for over, part in judged.groupby("over", observed=True):
        ranked = part.groupby("kind", observed=True)["correlation"].transform("count") > 0
        part = part[ranked] if ranked.any() else part
        kinds = [kind for kind in part["kind"].cat.categories if kind in set(part["kind"])]
        body = []
        for measure, rows in part.groupby("measure", observed=True):
            shown = {row.kind: _shown(row) for row in rows.itertuples()}
            body.append([measure, *(shown.get(kind, "-") for kind in kinds), _over_kinds(rows["verdict"])])
        tables[str(over)] = ["measure", *kinds, "over kinds"], body
    return tables


def _over_kinds(verdicts: pd.Series) -> str:
    """For how many kinds of task each verdict holds: "tracks in 3 of 4 kinds; undecided in 1"."""
    counts = verdicts.value_counts()
    first, *others = [f"{verdict} in {counts[verdict]}" for verdict in VERDICTS if verdict in counts]
    return "; ".join([f"{first} of {plural(len(verdicts), 'kind')}", *others])


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
