"""From evidence to verdicts: per kind of task, then in words over kinds."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from modtf.analysis.claims.evidence import MOST_TASKS, Evidence
from modtf.analysis.claims.registry import CLAIMS, Claim
from modtf.analysis.contents import plural
from modtf.analysis.correction import holm
from modtf.analysis.intervals import MIN_TASKS
from modtf.analysis.labels import kind_label
from modtf.checks import check_names
from modtf.results.schema import KIND, VARIANTS

if TYPE_CHECKING:
    from modtf.analysis.study import Study

SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
NOT_ENOUGH = "not enough runs"
VERDICTS = (SUPPORTED, CONTRADICTED, UNDECIDED, NOT_ENOUGH)


def judge_all(study: "Study", names: Iterable[str] | None = None) -> pd.DataFrame:
    """The claims held against every kind of task of a study.

    A kind supports a claim if every number it stands on lies where the claim says, whole interval and all. It
    contradicts it if one lies on the other side, after Holm's correction for all the numbers of the claim in
    all kinds: each is another chance to fall there by accident. Only the published variants count.

    Args:
        study: with one checkpoint.
        names: of registered claims; all by default.

    Returns:
        One row per claim, kind and piece of evidence: claim, text, figure, statistic, the columns of `KIND`,
        kind, evidence, value, low, high, expected, margin, p_against, p_against_corrected, num_tasks,
        num_models, num_missing, evidence_verdict, num_tasks_needed (about how many would decide what is
        undecided, infinite if over a thousand; else NaN), why, verdict (of the claim in this kind).

    Raises:
        ValueError: if a claim is not registered, or none is named.
    """
    names = list(CLAIMS) if names is None else list(check_names("claims", names))
    if not names:
        raise ValueError(f"No claim was asked for; expected some of {', '.join(CLAIMS)}.")
    found: dict[str, list[tuple[tuple[str, ...], Evidence]]] = {name: [] for name in names}
    for kind in study.kinds:
        part = study.of_kind(*kind).of_variants(VARIANTS)
        for name in names:
            pieces = list(CLAIMS[name].evidence(part)) or [Evidence("no such models")]
            found[name] += [(kind, piece) for piece in pieces]
    tables = [_judge(name, CLAIMS[name], found[name]) for name in names]
    return pd.concat(tables, ignore_index=True)


def _judge(name: str, claim: Claim, found: Sequence[tuple[tuple[str, ...], Evidence]]) -> pd.DataFrame:
    corrected = holm([piece.p_against for _, piece in found])
    looks = sum(piece.is_enough for _, piece in found)
    rows = []
    for (kind, piece), p in zip(found, corrected, strict=True):
        verdict = _verdict(piece, p)
        low, high = piece.interval
        needed = _tasks_needed(piece, looks) if verdict == UNDECIDED else math.nan
        rows.append(
            {
                "claim": name,
                "text": claim.text,
                "figure": claim.figure,
                "statistic": claim.statistic,
                **dict(zip(KIND, kind, strict=True)),
                "kind": kind_label(*kind),
                "evidence": piece.name,
                "value": piece.value,
                "low": low,
                "high": high,
                "expected": piece.expected,
                "margin": piece.margin,
                "p_against": piece.p_against,
                "p_against_corrected": p,
                "num_tasks": piece.num_tasks,
                "num_models": piece.num_models,
                "num_missing": piece.num_missing,
                "evidence_verdict": verdict,
                "num_tasks_needed": needed,
                "why": _why(piece, verdict, looks, needed),
            }
        )
    table = pd.DataFrame(rows)
    table["verdict"] = table.groupby("kind")["evidence_verdict"].transform(combine)
    return table


def _verdict(piece: Evidence, p_corrected: float) -> str:
    if not piece.is_enough:
        return NOT_ENOUGH
    if piece.supports:
        return SUPPORTED
    return CONTRADICTED if p_corrected <= (1 - piece.level) / 2 else UNDECIDED


def combine(verdicts: Iterable[str]) -> str:
    """Of a claim in a kind: contradicted if any is; supported if all are; else what is lacking."""
    found = set(verdicts)
    for verdict in (CONTRADICTED, NOT_ENOUGH, UNDECIDED):
        if verdict in found:
            return verdict
    return SUPPORTED


def _is_against(piece: Evidence) -> bool:
    """Whether it would contradict the claim, if it were the only look."""
    return piece.p_against <= (1 - piece.level) / 2


def _tasks_needed(piece: Evidence, looks: int) -> float:
    # on the other side it can only come to be contradicted, which is corrected
    needed = piece.tasks_needed(looks if piece.margin < 0 else 1)
    return math.inf if needed is None else needed


def _why(piece: Evidence, verdict: str, looks: int, needed: float) -> str:
    if verdict == NOT_ENOUGH:
        if not piece.num_tasks:
            return "no such models"
        return f"at least {MIN_TASKS} tasks are needed"
    if verdict != UNDECIDED:
        return ""
    tasks = f"about {needed:.0f}" if math.isfinite(needed) else f"more than {MOST_TASKS}"
    before = "the interval holds the border"
    if _is_against(piece):
        before = f"on the other side, but not after correction for {plural(looks, 'look')}"
    return f"{before}; {tasks} tasks would decide it"
