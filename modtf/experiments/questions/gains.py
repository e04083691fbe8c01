"""Gains in error of one network over another, in points, where both have learned the training's questions."""

import pandas as pd

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import Found
from modtf.analysis.learned import has_learned
from modtf.analysis.pairs import match_members
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels

LEARNED = 10.0  # % error in distribution; above it, other combinations are not judged
NOT_LEARNED = f"accuracy in distribution is below {100 - LEARNED:g}%"
MODEL = ["width", "data_seed", "seed"]  # models that agree in these are compared


def errors(study: TrainedModels, distribution: str, *names: str) -> pd.DataFrame:
    """Return the error of every width, data seed and seed, a column for each variant."""
    rows = study.performance
    rows = rows[(rows["distribution"] == distribution) & rows["variant"].isin(names)]
    table = rows.pivot_table("value", MODEL, "variant", observed=True)
    return table.reindex(columns=list(names)).dropna().reset_index()


def over(study: TrainedModels, first: str, second: str, where: str = OUT, **bounds: float | None) -> Found:
    """Yield the gain of the first over the second; out of distribution only if both are learned."""
    name = f"{first} over {second}"
    if where == OUT and not learned(study, first, second):
        yield Evidence(name, lacking=NOT_LEARNED)
        return
    rows = study.performance
    pairs = match_members(rows[rows["distribution"] == where], first, second)
    yield mean_evidence(pairs, "gain", name, level=study.level, **bounds)  # type: ignore[arg-type]


def learned(study: TrainedModels, *names: str) -> bool:
    """Return whether all variants that were run answer the training combinations, at every width."""
    seen = errors(study, IN, *names).groupby("width")
    return all(has_learned(part[name], 1.0, LEARNED) for _, part in seen for name in names)
