"""Rank agreement between two numbers of the models that share a task."""

from dataclasses import replace

import numpy as np
import pandas as pd

from modtf.analysis.claims.evidence import Evidence, as_votes, mean_evidence
from modtf.analysis.study import Study
from modtf.results.schema import KIND

LIMITS = (-1.0, 1.0)
UNIT = [*KIND, "num_rules", "width", "data_seed"]  # models that agree in these may be ranked


def rank_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Of all pairs of entries that differ in both: the share ordered alike less the share ordered otherwise.

    Goodman and Kruskal's gamma, -1..1; NaN where no pair differs in both. Infinite entries come last.

    Example:
        >>> rank_agreement(np.array([1, 2, 3]), np.array([1, 3, 2]))  # 2 of 3 pairs alike
        0.3333333333333333
    """
    upper = np.triu_indices(len(first), k=1)
    order = _signs(first)[upper] * _signs(second)[upper]
    pairs = order[order != 0]
    return float(pairs.mean()) if pairs.size else float("nan")


def _signs(values: np.ndarray) -> np.ndarray:
    # not a difference: that of two infinite numbers is none
    return np.greater.outer(values, values).astype(int) - np.less.outer(values, values).astype(int)


def agreement_evidence(frame: pd.DataFrame, first: str, second: str, name: str, study: Study) -> Evidence:
    """Mean rank agreement over units that hold at least two variants; where all agree, each is one vote."""
    rows = []
    for key, unit in frame.groupby(UNIT, observed=True):
        if unit["variant"].nunique() > 1:
            gamma = rank_agreement(unit[first].to_numpy(float), unit[second].to_numpy(float))
            rows.append((*key, gamma))
    table = pd.DataFrame(rows, columns=[*UNIT, "agreement"])
    undefined = table["agreement"].isna()  # nothing to rank is no model that diverged
    found = mean_evidence(table[~undefined], "agreement", name, level=study.level)
    if found.error == 0.0:  # all tasks agree, which three coins may, too
        return as_votes(found, *LIMITS)
    return replace(found, limits=LIMITS)
