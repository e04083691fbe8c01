"""The qualitative claims of the paper, each held against a study, kind of task by kind of task."""

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.judge import (
    CONTRADICTED,
    NOT_ENOUGH,
    SUPPORTED,
    UNDECIDED,
    VERDICTS,
    judge_all,
)
from modtf.analysis.claims.registry import CLAIMS, Claim, register_claim
from modtf.analysis.claims.text import decisive, in_words, print_claims

__all__ = [
    "CLAIMS",
    "CONTRADICTED",
    "NOT_ENOUGH",
    "SUPPORTED",
    "UNDECIDED",
    "VERDICTS",
    "Claim",
    "Evidence",
    "decisive",
    "in_words",
    "judge_all",
    "mean_evidence",
    "print_claims",
    "register_claim",
]
