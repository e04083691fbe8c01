"""Claims compared with a study, one task type at a time, and the parts of your own claims."""

from etils import epy

with epy.lazy_api_imports(globals()):
    from modtf.analysis.claims.evidence import Evidence as Evidence
    from modtf.analysis.claims.evidence import advantage as advantage
    from modtf.analysis.claims.evidence import against_random as against_random
    from modtf.analysis.claims.evidence import agreement_evidence as agreement_evidence
    from modtf.analysis.claims.evidence import gains as gains
    from modtf.analysis.claims.evidence import mean_evidence as mean_evidence
    from modtf.analysis.claims.evidence import measured as measured
    from modtf.analysis.claims.evidence import measures_in as measures_in
    from modtf.analysis.claims.evidence import share_evidence as share_evidence
    from modtf.analysis.claims.evidence import share_lost as share_lost
    from modtf.analysis.claims.evidence import slopes as slopes
    from modtf.analysis.claims.judge import CONTRADICTED as CONTRADICTED
    from modtf.analysis.claims.judge import DEPENDS as DEPENDS
    from modtf.analysis.claims.judge import INITIALS as INITIALS
    from modtf.analysis.claims.judge import NOT_ENOUGH as NOT_ENOUGH
    from modtf.analysis.claims.judge import SUPPORTED as SUPPORTED
    from modtf.analysis.claims.judge import UNDECIDED as UNDECIDED
    from modtf.analysis.claims.judge import VERDICTS as VERDICTS
    from modtf.analysis.claims.judge import decisive as decisive
    from modtf.analysis.claims.judge import evidence_words as evidence_words
    from modtf.analysis.claims.judge import in_words as in_words
    from modtf.analysis.claims.judge import judge_all as judge_all
    from modtf.analysis.claims.judge import learning_words as learning_words
    from modtf.analysis.claims.judge import letters as letters
    from modtf.analysis.claims.judge import number_words as number_words
    from modtf.analysis.claims.judge import print_claims as print_claims
    from modtf.analysis.claims.registry import CLAIMS as CLAIMS
    from modtf.analysis.claims.registry import Claim as Claim
    from modtf.analysis.claims.registry import register_claim as register_claim
    from modtf.analysis.learned import has_learned as has_learned
    from modtf.analysis.learned import learned_by_variant as learned_by_variant
    from modtf.analysis.learned import shares_learned as shares_learned
