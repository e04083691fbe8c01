"""Claims about rank orders: specialisation and learning speed, in and out of distribution."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from modtf.metrics import measures, smaller_is_better
from modtf.analysis.claims.base import Claim, Evidence, mean_evidence
from modtf.analysis.performance import IN, OUT, performance_rows
from modtf.analysis.study import Study

UNIT = ["arch", "setting", "search", "num_rules", "width", "data_seed"]


def rank_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Of all pairs of entries that differ in both: the share ordered alike less the share ordered otherwise.

    Goodman and Kruskal's gamma, -1..1; NaN where no pair differs in both.

    Example:
        >>> rank_agreement(np.array([1, 2, 3]), np.array([1, 3, 2]))  # 2 of 3 pairs alike
        0.3333333333333333
    """
    upper = np.triu_indices(len(first), k=1)
    order = np.sign(np.subtract.outer(first, first)) * np.sign(np.subtract.outer(second, second))
    pairs = order[upper]
    pairs = pairs[np.isfinite(pairs) & (pairs != 0)]
    return float(pairs.mean()) if pairs.size else float("nan")


def learning_area(history: pd.DataFrame) -> pd.DataFrame:
    """The area under the training curve of every model, divided by its number of evaluations: small is fast.

    A unit (cell without variant, and task) counts only the steps at which all of its models were evaluated.
    """
    rows = performance_rows(history, conditions=False)
    models = (
        rows.groupby(UNIT)[["variant", "seed"]].apply(lambda r: len(r.drop_duplicates())).rename("models")
    )
    at_step = rows.groupby([*UNIT, "step"]).size().rename("evaluated").reset_index()
    complete = at_step.merge(models.reset_index(), on=UNIT).query("evaluated == models")
    rows = rows.merge(complete[[*UNIT, "step"]], on=[*UNIT, "step"])
    return rows.groupby([*UNIT, "variant", "seed"])["value"].mean().rename("area").reset_index()


def _specialised_train_faster(study: Study) -> Iterator[Evidence]:
    empty = study.history.empty
    area = None if empty else learning_area(study.history)
    for measure in measures("specialisation"):
        if area is None:
            yield Evidence(measure.name)
            continue
        rows = study.results[study.results["measure"] == measure.name].dropna(subset="value")
        sign = 1.0 if smaller_is_better(measure.name) else -1.0
        both = rows[[*UNIT, "variant", "seed", "value"]].merge(area, on=[*UNIT, "variant", "seed"])
        yield _agreement(both.assign(value=sign * both["value"]), "value", "area", measure.name, study)


def _out_follows_in(study: Study) -> Iterator[Evidence]:
    rows = study.performance
    means = rows.groupby([*UNIT, "condition", "variant"])["value"].mean().unstack("condition")
    means = means.reindex(columns=[IN, OUT]).dropna().reset_index()
    yield _agreement(means, IN, OUT, "order of the variants", study)


def _agreement(frame: pd.DataFrame, first: str, second: str, name: str, study: Study) -> Evidence:
    """Mean rank agreement over units that hold at least two variants."""
    rows = []
    for key, unit in frame.groupby(UNIT):
        if unit["variant"].nunique() > 1:
            gamma = rank_agreement(unit[first].to_numpy(float), unit[second].to_numpy(float))
            rows.append((*key, gamma))
    return mean_evidence(pd.DataFrame(rows, columns=[*UNIT, "agreement"]), "agreement", name, study)


SPECIALISED_TRAIN_FASTER = Claim(
    text="better specialised models also train faster",
    figure="training_curves",
    statistic="rank agreement of the measure with the area under the training curve",
    evidence=_specialised_train_faster,
)
OUT_FOLLOWS_IN = Claim(
    text="the order out of distribution follows the order in distribution",
    figure="performance_vs_num_rules",
    statistic="rank agreement of the variants in and out of distribution",
    evidence=_out_follows_in,
)
