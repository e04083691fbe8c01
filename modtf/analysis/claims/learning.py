"""Claims about what goes with specialisation: performance, and speed of training."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from modtf.analysis.claims.agreement import UNIT, agreement_evidence
from modtf.analysis.claims.evidence import Evidence
from modtf.analysis.claims.measured import measures_in
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.performance import IN, performance_rows
from modtf.analysis.study import Study
from modtf.families import IID

MODEL = [*UNIT, "variant", "seed"]


def steps_to_threshold(history: pd.DataFrame) -> pd.DataFrame:
    """The steps after which every model reaches a performance that all variants of its task reach.

    The threshold of a task (cell without variant, and data seed) is the best performance that the median
    model of each variant reaches, of the variant where that is worst.

    Args:
        history: as `load_history` gives it, of models to be compared.

    Returns:
        The columns of `MODEL` and `steps`: of the first evaluation at or below the threshold, infinite for a
        model that never gets there. Models that diverged have no row.
    """
    rows = performance_rows(history, headline=False)
    rows = rows[(rows["condition"] == IID) & np.isfinite(rows["value"])]
    best = rows.groupby(MODEL, observed=True)["value"].min()
    of_variant = best.groupby([*UNIT, "variant"], observed=True).median()
    threshold = of_variant.groupby(UNIT, observed=True).max().rename("threshold").reset_index()
    rows = rows.merge(threshold, on=UNIT)
    reached = rows[rows["value"] <= rows["threshold"]].groupby(MODEL, observed=True)["step"].min()
    return reached.reindex(best.index).fillna(np.inf).rename("steps").reset_index()


def _agree(study: Study, other: pd.DataFrame, column: str) -> Iterator[Evidence]:
    """The rank agreement of every measure of specialisation with a number of the same models."""
    for measure in measures_in(study, "specialisation"):
        rows = study.results[study.results["measure"] == measure.name].dropna(subset="value")
        sign = 1.0 if measure.smaller_is_better else -1.0
        both = rows[[*MODEL, "value"]].merge(other[[*MODEL, column]], on=MODEL).dropna()
        both = both.assign(badness=sign * both["value"])
        yield agreement_evidence(both, "badness", column, measure.name, study)


@register_claim(
    "specialised_perform_better",
    text="better specialised models also perform better",
    figure="collapse_and_specialisation_vs_num_rules",
    statistic="rank agreement of the measure with the loss or error in distribution",
)
def specialised_perform_better(study: Study) -> Iterator[Evidence]:
    rows = study.performance
    rows = rows[rows["distribution"] == IN].rename(columns={"value": "performance"})
    return _agree(study, rows, "performance")


@register_claim(
    "specialised_train_faster",
    text="better specialised models also train faster",
    figure="training_curves",
    statistic="rank agreement of the measure with the steps to a threshold common to the variants",
)
def specialised_train_faster(study: Study) -> Iterator[Evidence]:
    if study.history.empty:
        return
    measured = study.results[study.results["num_modules"] > 1]
    history = study.history[study.history["variant"].isin(measured["variant"].unique())]
    yield from _agree(study, steps_to_threshold(history), "steps")
