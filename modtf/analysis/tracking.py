"""The correlation of measures with alignment, if the rules are known: which measures track specialisation.

Alignment needs the true rules; without them, other measures have to do. Each correlation is computed among
the models of one data seed, then averaged over data seeds. Routers are a sample, as data seeds are, so the
interval resamples both.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from modtf.analysis.intervals import LEVEL, MIN_TASKS, UNIT
from modtf.analysis.labels import categorise, parse_options, place_label, with_kinds
from modtf.analysis.learned import learned_by_variant
from modtf.metrics import GROUPS, MEASURES, activation_measures
from modtf.pages.text import percent_of, plural, text_table
from modtf.results import KIND

TRUTH = "alignment"
ALL, BY_RULES = "routers and R", "routers at one R"
OVER = (ALL, BY_RULES)  # the models that a correlation compares
LEAST = 3  # models: the ranks of two models always agree or disagree
MIN_ROUTERS = 5  # resampling fewer routers is meaningless
DRAWS = 1000
BORDER = 0.5  # a measure tracks if its correlation lies above; chosen before there were results
TRACKS, DOES_NOT, MISLEADS = "tracks", "does not track", "misleads"
UNDECIDED, NOT_ENOUGH, UNDEFINED = "undecided", "not enough runs", "undefined"
VERDICTS = (TRACKS, DOES_NOT, MISLEADS, UNDECIDED, NOT_ENOUGH, UNDEFINED)
WITHIN = ("num_rules", "width", "variant")  # identify a point within a task type
IDENTITY = ("num_rules", "variant")
FIXED = 1e-6  # an activation that changes by less was not learned
START = "trainer.start"  # the option of models with a warm start
DIGITS = 9  # smaller differences of a measure are rounding errors and must not be ranked
COUNTS = ("num_tasks", "num_undefined", "num_routers", "num_points", "num_models", "num_missing")
COLUMNS = ["measure", "kind", "over", "correlation", "low", "high", *COUNTS, "verdict"]


def learned_measures(study: Any) -> pd.DataFrame:
    """Return every measure of the activation matrices of models that learned to use their modules.

    Variants that have not learned are left out, and models of one module. So are models whose activation is
    the same at every evaluation, the one before training included (`gt_modular`, `uniform`), and routers with
    a warm start. Their alignment is chosen, not learned, and two extreme points would correlate with any
    measure. At "tail" a measure is the mean over the last evaluations.

    Returns:
        One row per model: the columns of `KIND`, num_rules, width, variant, place, data_seed, seed, then the
        measures. The measures are NaN for a model that diverged.
    """
    table = learned_by_variant(study)
    failed = set(table.loc[~table["learned"], [*KIND, *IDENTITY]].itertuples(index=False, name=None))
    rows = [
        pd.DataFrame(cell.measured(study.checkpoint)).assign(
            **{name: cell.cell[name] for name in (*KIND, *WITHIN)},
            place=cell.place,
            data_seed=cell.data_seeds,
            seed=cell.seeds,
        )
        for place in study.places
        for cell in study.activations(place)
        if tuple(cell.cell[name] for name in (*KIND, *IDENTITY)) not in failed
        if cell.last.shape[-1] > 1 and (np.abs(cell.history - cell.history[0]) > FIXED).any()
        if parse_options(cell.cell["model_options"]).get(START, "none") == "none"
    ]
    names = [measure.name for measure in activation_measures(GROUPS)]
    columns = [*KIND, *WITHIN, "place", UNIT, "seed", *names]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def rank_correlation(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return Spearman's rank correlation of two numbers of the same models, `[..., N]`: -1..1, `[...]`.

    Equal numbers share a rank. NaN for fewer than 3 models with both, or if either number is constant.

    Example:
        >>> float(rank_correlation([0.1, 0.2, 0.3], [1, 10, 100]))
        1.0"""
    both = np.round(np.stack([np.asarray(first, float), np.asarray(second, float)]), DIGITS)
    both = np.where(np.isnan(both).any(axis=0), np.nan, both)
    ranks = stats.rankdata(both, axis=-1, nan_policy="omit")
    number = np.isfinite(ranks[0]).sum(axis=-1)
    x, y = np.nan_to_num(ranks - (number[..., None] + 1) / 2)
    spread = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    known = (number >= LEAST) & (spread > 0)
    return np.where(known, np.clip((x * y).sum(axis=-1) / np.where(known, spread, 1), -1, 1), np.nan)


def judge_measures(models: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
    """Judge whether each measure ranks models as alignment does.

    Both are oriented so that larger is better; a measure without a better end stays as it is. A positive
    correlation then tracks specialisation and a negative one misleads. Models of one data seed that differ
    only in seed are averaged first, then ranked. "routers and R" ranks all of them. "routers at one R" ranks
    each R on its own and takes the mean. Many measures grow with R, as alignment does. Then "routers and R"
    mostly shows the effect of R, and "routers at one R" the effect of the routers.

    The correlation is the mean over data seeds. Its interval comes from 1,000 bootstrap samples of routers
    (each with all its R) and data seeds.

    Args:
        models: the table of `learned_measures`.
        level: of the intervals.

    Returns:
        One row per measure, task type and `over`: measure, kind, over, correlation, low, high, num_tasks,
        num_undefined (tasks with fewer than 3 models, or where the measure or alignment is constant),
        num_routers, num_points (most models ranked in a task, after averaging seeds), num_models (all
        models behind the row), num_missing (models without a value of the measure or alignment: they
        diverged, or use a single module, so that `expert_overlap` has no pair), verdict. A measure "tracks"
        if its whole interval lies above 0.5, "misleads" if it lies below 0, and "does not track" if it lies
        below 0.5. There is no interval with fewer than five routers or three data seeds.
    """
    names = [m.name for m in activation_measures(GROUPS) if m.name in models and m.name != TRUTH]
    if models.empty or not names:
        return pd.DataFrame(columns=COLUMNS)
    models = with_kinds(models)
    if "place" in models and any(models["place"]):  # judge each routed layer on its own
        models["kind"] = categorise(models, ["kind", "place"], place_label)
    table = pd.DataFrame([row for name in names for row in _measure_rows(models, name, level)])
    for name, order in zip(COLUMNS[:3], (names, models["kind"].cat.categories, OVER), strict=True):
        table[name] = pd.Categorical(table[name], list(order))
    table["verdict"] = [_verdict(row) for row in table.itertuples()]
    return table.sort_values(COLUMNS[:3], ignore_index=True)[COLUMNS]


def _measure_rows(models: pd.DataFrame, name: str, level: float) -> Iterator[dict[str, Any]]:
    """Yield a row for every task type and `over`."""
    turned = -1.0 if MEASURES[name].smaller_is_better else 1.0
    for kind, part in models.groupby("kind", observed=True):
        finite = part[np.isfinite(part[[name, TRUTH]].to_numpy(float)).all(axis=1)]
        shared = {"measure": name, "kind": kind, "num_models": len(finite)}
        shared["num_missing"] = len(part) - len(finite)
        if finite.empty:
            shared |= dict.fromkeys(COUNTS[:4], 0) | {"num_undefined": part[UNIT].nunique()}
            yield from ({**shared, "over": over} | dict.fromkeys(COLUMNS[3:6], np.nan) for over in OVER)
            continue
        points = finite.groupby([UNIT, *WITHIN], observed=True)[[name, TRUTH]].mean().unstack(UNIT)
        x, y = turned * points[name].to_numpy().T, -points[TRUTH].to_numpy().T  # [tasks, points]
        routers = points.groupby(["width", "variant"], observed=True).ngroup().to_numpy()
        rules = points.index.get_level_values("num_rules").to_numpy()
        shared["num_routers"] = len(set(routers))
        for over, groups in ((ALL, [rules >= 0]), (BY_RULES, [rules == r for r in np.unique(rules)])):
            each = _correlations(x, y, np.arange(len(routers))[None], groups)[0]
            known, enough = np.isfinite(each), shared["num_routers"] >= MIN_ROUTERS
            low, high = _resampled(x, y, routers, groups, level) if enough else (np.nan, np.nan)
            most = max((int(np.isfinite(x[:, g]).sum(axis=1).max()) for g in groups if len(x)), default=0)
            few = known.sum() < MIN_TASKS
            yield {
                **shared,
                "over": over,
                "correlation": each[known].mean() if known.any() else np.nan,
                "low": np.nan if few else low,
                "high": np.nan if few else high,
                "num_tasks": int(known.sum()),
                "num_undefined": part[UNIT].nunique() - int(known.sum()),
                "num_points": most,
            }


def _correlations(x: Any, y: Any, chosen: NDArray[np.int64], groups: list[Any]) -> NDArray[np.float64]:
    """Return the correlation `[B, tasks]` among chosen points `[B, K]`, -1 for none; the mean over groups."""
    rows = []
    for group in groups:
        left_out = (chosen < 0) | ~group[chosen]
        one, other = (np.where(left_out[:, None], np.nan, v[:, chosen].swapaxes(0, 1)) for v in (x, y))
        rows.append(rank_correlation(one, other))
    number = np.isfinite(rows).sum(axis=0)
    return np.where(number > 0, np.nansum(rows, axis=0) / np.maximum(number, 1), np.nan)


def _resampled(x: Any, y: Any, routers: Any, groups: list[Any], level: float) -> NDArray[np.float64]:
    """Return the interval over samples of routers and of tasks."""
    rng, number = np.random.default_rng(0), routers.max() + 1
    of_router = [np.flatnonzero(routers == r) for r in range(number)]
    longest = max(map(len, of_router))
    padded = np.stack([np.pad(p, (0, longest - len(p)), constant_values=-1) for p in of_router])
    chosen = padded[rng.integers(0, number, [DRAWS, number])].reshape(DRAWS, -1)
    drawn = rng.integers(0, len(x), [DRAWS, len(x)])
    each = np.take_along_axis(_correlations(x, y, chosen, groups), drawn, axis=1)
    means = np.nansum(each, axis=1) / np.maximum(1, np.isfinite(each).sum(axis=1))
    known = np.isfinite(each).any(axis=1)
    return (
        np.quantile(means[known], [(1 - level) / 2, (1 + level) / 2]) if known.any() else np.full(2, np.nan)
    )


def _verdict(row: Any) -> str:
    if row.num_tasks == 0:
        return UNDEFINED
    if not row.low <= row.high:
        return NOT_ENOUGH
    if row.low > BORDER:
        return TRACKS
    if row.high < BORDER:
        return MISLEADS if row.high < 0 else DOES_NOT
    return UNDECIDED


def judged_cells(judged: pd.DataFrame) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Return header and rows of a table for each `over`: a row per measure, a column per task type, verdicts.

    There is no interval over task types, because they were chosen, not sampled. Task types without ranks have
    no column.
    """
    tables = {}
    for over, part in judged.groupby("over", observed=True):
        ranked = part.groupby("kind", observed=True)["correlation"].transform("count") > 0
        part = part[ranked] if ranked.any() else part
        kinds = [kind for kind in part["kind"].cat.categories if kind in set(part["kind"])]
        body = []
        for measure, rows in part.groupby("measure", observed=True):
            shown = {row.kind: _shown(row) for row in rows.itertuples()}
            counts = rows["verdict"].value_counts()
            first, *others = [f"{verdict} in {counts[verdict]}" for verdict in VERDICTS if verdict in counts]
            words = "; ".join([f"{first} of {plural(len(rows), 'task type')}", *others])
            body.append([measure, *(shown.get(kind, "-") for kind in kinds), words])
        tables[str(over)] = ["measure", *kinds, "over task types"], body
    return tables


def print_judged(judged: pd.DataFrame, level: float = LEVEL) -> str:
    """Return the table as text: a block per `over`, a row per measure, a column per task type, a note."""
    if judged.empty:
        return "The results have no activation matrices of models that learn to use several modules."
    blocks = [f"Among {over}:\n{text_table(*table)}" for over, table in judged_cells(judged).items()]
    note = (
        f"Spearman's rank correlation with {TRUTH} within a task, both oriented so that larger is better. "
        f"Intervals: {percent_of(level)} of {DRAWS:,} samples of routers and tasks, if there are at least "
        f"{MIN_ROUTERS} routers. Models, each counted at every routed layer: "
        f"{judged.groupby('kind', observed=True)['num_models'].max().sum()}."
    )
    return "\n\n".join([*blocks, note])


def _shown(row: Any) -> str:
    if not np.isfinite(row.correlation):
        return "-"
    width = "" if np.isnan(row.low) else f" [{row.low:+.2f}, {row.high:+.2f}]"
    return f"{row.correlation:+.2f}{width}"
