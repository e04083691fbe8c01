"""A claim, the numbers it stands on, and the verdict."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from modtf.analysis.resampling import intervals
from modtf.results.schema import TASK
from modtf.analysis.study import Study

SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "not enough runs"
MIN_TASKS = 3  # with fewer, the resampled means take a handful of values and no interval means anything


@dataclass(frozen=True)
class Evidence:
    """One number, its interval, and where the claim says it lies: above `above` or within +-`within`."""

    name: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    num_tasks: int = 0
    num_models: int = 0  # values that the mean is over
    above: float = 0.0
    within: float | None = None

    @property
    def expected(self) -> str:
        return f"> {self.above:g}" if self.within is None else f"within {self.within:g} of 0"

    @property
    def verdict(self) -> str:
        """An interval on the claimed side supports, one on the other contradicts, any other is too wide."""
        if self.num_tasks < MIN_TASKS or not (math.isfinite(self.low) and math.isfinite(self.high)):
            return UNDECIDED
        if self.within is not None:
            if -self.within < self.low and self.high < self.within:
                return SUPPORTED
            return CONTRADICTED if self.low > self.within or self.high < -self.within else UNDECIDED
        if self.low > self.above:
            return SUPPORTED
        return CONTRADICTED if self.high <= self.above else UNDECIDED


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper. All of its evidence must hold for it."""

    text: str
    figure: str  # the name of the figure it stands on
    statistic: str  # what the numbers of the evidence are
    evidence: Callable[[Study], Iterable[Evidence]]


def mean_evidence(
    frame: pd.DataFrame, value: str, name: str, study: Study, above: float = 0.0, within: float | None = None
) -> Evidence:
    """The mean of a column over all rows, tasks weighing the same, as evidence."""
    if frame.empty:
        return Evidence(name, above=above, within=within)
    row = intervals(frame, [], value, TASK, study.bootstrap).iloc[0]
    counts = int(row["num_tasks"]), int(row["num_models"])
    return Evidence(name, float(row["mean"]), float(row["low"]), float(row["high"]), *counts, above, within)


def combine(verdicts: Sequence[str]) -> str:
    """Contradicted if any is; supported if all are."""
    if CONTRADICTED in verdicts:
        return CONTRADICTED
    return SUPPORTED if verdicts and set(verdicts) == {SUPPORTED} else UNDECIDED


def judge(key: str, claim: Claim, study: Study) -> pd.DataFrame:
    """One row per piece of evidence: claim, text, figure, statistic, evidence, value, low, high, expected,
    num_tasks, num_models, evidence_verdict, verdict."""
    found = list(claim.evidence(study)) or [Evidence("nothing to look at")]
    verdict = combine([e.verdict for e in found])
    rows = [
        {
            "claim": key,
            "text": claim.text,
            "figure": claim.figure,
            "statistic": claim.statistic,
            "evidence": e.name,
            "value": e.value,
            "low": e.low,
            "high": e.high,
            "expected": e.expected,
            "num_tasks": e.num_tasks,
            "num_models": e.num_models,
            "evidence_verdict": e.verdict,
            "verdict": verdict,
        }
        for e in found
    ]
    return pd.DataFrame(rows)


def judge_all(study: Study, claims: Iterable[str] | None = None) -> pd.DataFrame:
    """`judge` of all registered claims, or of those named."""
    from modtf.analysis.claims.registry import CLAIMS

    names = list(CLAIMS if claims is None else claims)
    return pd.concat([judge(name, CLAIMS[name], study) for name in names], ignore_index=True)
