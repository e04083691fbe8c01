"""Models with fixed routing, by the router `clamped`: its distance from the rules, and its cost."""

import numpy as np
import pandas as pd

from modtf.analysis.claims.evidence import SERIES, mean_evidence, slopes
from modtf.analysis.intervals import LEVEL
from modtf.analysis.labels import parse_options
from modtf.analysis.pairs import log_ratios, match_members, ratios_to
from modtf.analysis.trained import TrainedModels
from modtf.pages.text import with_interval

CLAMPED = "clamped"
WAYS = {False: "weighted", True: "sampled"}
#: (matrix, amount) with one module per rule, which sampling does not change
CERTAIN = (("spread", 0.0), ("block", 1), ("collapsed", 2))
FIXED = {"matrix", "amount", "hard"}  # options of a matrix that is the same in all steps
SURE = 0.05  # the level of each of two one-sided tests
Routing = tuple[str, float, bool]  # matrix, amount, and whether a module is sampled for every token


def routing_of(model_options: str) -> Routing:
    """Return the matrix, its amount and the way of routing, from the options of a model.

    Example:
        >>> routing_of("matrix=block,amount=2,hard=True")
        ('block', 2, True)
    """
    options = parse_options(model_options)
    matrix, amount = options.get("matrix", "spread"), float(options.get("amount", 0))
    return matrix, amount if matrix == "spread" else int(amount), options.get("hard") == "True"


def family_of_matrices(model_options: str) -> str:
    """Return the family of a fixed routing: everything but its amount.

    Example:
        >>> family_of_matrices("matrix=block,amount=2,hard=True")
        'block, sampled'
        >>> family_of_matrices("of=runs/mlp-0123abcd,hard=False")
        'paired run, weighted'
        >>> family_of_matrices("amount=0.5,until_step=100")
        'spread for some steps, weighted'
    """
    (matrix, _, sampled), options = routing_of(model_options), parse_options(model_options)
    if not options.keys() <= FIXED:
        matrix = "paired run" if "of" in options else f"{matrix} for some steps"
    return f"{matrix}, {WAYS[sampled]}"


def is_fixed(rows: pd.DataFrame) -> pd.Series:
    """Return whether the routing is a named matrix in all steps, not that of another model."""
    known = {text: parse_options(text).keys() <= FIXED for text in rows["model_options"].astype(str).unique()}
    return (rows["router"] == CLAMPED) & rows["model_options"].astype(str).map(known).astype(bool)


def fixed_rows(study: TrainedModels) -> pd.DataFrame:
    """Return the performance in and out of distribution of the models with fixed routing.

    Returns:
        The columns of `study.performance`, and matrix, amount, sampled, alignment (of the matrix).
    """
    rows = study.performance[is_fixed(study.performance)]
    routings = [routing_of(options) for options in rows["model_options"].astype(str)]
    table = pd.DataFrame(routings, rows.index, ["matrix", "amount", "sampled"])
    found = [distance(*which[:2], rules) for which, rules in zip(routings, rows["num_rules"], strict=True)]
    return rows.join(table.assign(alignment=found))


def distance(matrix: str, amount: float, num_rules: int) -> float:
    """Return the alignment of a matrix of the router `clamped`.

    Example:
        >>> distance("spread", 0.25, 8), distance("collapsed", 4, 8)
        (0.25, 0.75)
        >>> distance("spread", 0.75, 2)  # a token of one rule goes to the other's module
        0.25
    """
    if matrix != "spread":
        return 1 - 1 / amount
    return 1 - max(1 - amount, amount / (num_rules - 1)) if num_rules > 1 else 0.0


def trends(fixed: pd.DataFrame, matrix: str, sampled: bool) -> pd.DataFrame:
    """Return the slope of log loss (or error) against alignment in a family of matrices.

    Perfect routing is left out. With it, the slope would mostly show a step: in sampled routing, the first
    tenth of wrong tokens causes most of the cost.

    Args:
        fixed: rows of `fixed_rows`, of one distribution.

    Returns:
        The columns of `SERIES`, num_rules, and slope, for every model series with at least three matrices. At
        a slope of 2.3 the loss grows tenfold from alignment 0 to 1. NaN if a model diverged or has no loss. A
        block of all rules is the largest `spread`.
    """
    largest = (fixed["matrix"] == "spread") & np.isclose(fixed["alignment"], 1 - 1 / fixed["num_rules"])
    same = (fixed["matrix"] == matrix) & (fixed["alignment"] > 0) | largest & (matrix == "block")
    rows = fixed[same & (fixed["sampled"] == sampled)]
    series = [*SERIES, "num_rules"]
    rows = rows[rows.groupby(series, observed=True)["alignment"].transform("nunique") > 2]
    logs = rows.assign(cost=np.log(rows["value"].where(rows["value"] > 0)))
    return slopes(logs, "cost", logs["alignment"], series)


def select(fixed: pd.DataFrame, routing: Routing) -> pd.DataFrame:
    """Return the rows of one fixed routing.

    A matrix that is the same weighted and sampled, such as perfect routing, matches either name. A block of
    all rules is also the largest `spread`.
    """
    matrix, amount, sampled = routing
    same = (fixed["matrix"] == matrix) & (fixed["amount"] == amount)
    if matrix == "block":
        even = (fixed["matrix"] == "spread") & np.isclose(fixed["amount"], 1 - 1 / amount)
        same |= even & (fixed["num_rules"] == amount)
    exact = same & (fixed["sampled"] == sampled)
    return fixed[same if (matrix, amount) in CERTAIN and not exact.any() else exact]


def saved(fixed: pd.DataFrame, first: Routing, second: Routing) -> pd.DataFrame:
    """Return `match_members` of two fixed routings, see `select`, on the same tasks and seeds."""
    both = [select(fixed, which).assign(variant=name) for which, name in ((first, "1"), (second, "2"))]
    return match_members(pd.concat(both), "1", "2")


def times(values: pd.DataFrame, others: pd.DataFrame, level: float = LEVEL) -> str:
    """Return the ratio to other values on the same tasks and seeds as text; "" if there are none.

    It is the geometric mean over tasks with its interval."""
    ratios = ratios_to(values, others, level=level).itertuples()
    return "".join(with_interval(ratio.mean, ratio.low, ratio.high) for ratio in ratios)


def effect(pairs: pd.DataFrame, within: float, level: float, *, as_difference: bool = False) -> str:
    """Return the first value as a multiple of the second, or their difference, as text.

    Args:
        pairs: the table of `match_members`.
        within: a margin. "=" after the effect means equivalence by two one-sided tests at 5%: the ratio lies
            between 1 / (1 + within) and 1 + within, or the difference within +-`within`.
        level: of the interval over tasks; the mean of ratios is geometric.
        as_difference: for measures, which can be 0.
    """
    if pairs.empty:
        return ""
    if as_difference:
        change = pairs["value_first"] - pairs["value_second"]
    else:
        change, within = log_ratios(pairs), np.log1p(within)
    evidence = mean_evidence(pairs.assign(change=change), "change", "", within=within, level=level)
    numbers = evidence.value, *evidence.interval
    shown = with_interval(*numbers, form="+.2f") if as_difference else with_interval(*np.exp(numbers))
    return shown + " =" * (evidence.p_for < SURE)
