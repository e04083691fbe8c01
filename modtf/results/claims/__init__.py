"""The qualitative claims of the paper, each held against a study."""

from modtf.results.claims.base import CONTRADICTED, SUPPORTED, UNDECIDED, Claim, Evidence, judge, judge_all
from modtf.results.claims.registry import CLAIMS

__all__ = ["CLAIMS", "CONTRADICTED", "SUPPORTED", "UNDECIDED", "Claim", "Evidence", "judge", "judge_all"]
