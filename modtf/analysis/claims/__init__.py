"""The qualitative claims of the paper, each held against a study."""

from modtf.analysis.claims.base import CONTRADICTED, SUPPORTED, UNDECIDED, Claim, Evidence, judge, judge_all
from modtf.analysis.claims.registry import CLAIMS

__all__ = ["CLAIMS", "CONTRADICTED", "SUPPORTED", "UNDECIDED", "Claim", "Evidence", "judge", "judge_all"]
