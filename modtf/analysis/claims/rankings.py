"""Claims about the order of the variants, in and out of distribution."""

from collections.abc import Iterator

from modtf.analysis.claims.agreement import UNIT, agreement_evidence
from modtf.analysis.claims.evidence import Evidence, share_evidence
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.performance import IN, OUT
from modtf.analysis.ranking import votes
from modtf.analysis.study import Study


@register_claim(
    "gt_modular_wins",
    text="gt_modular wins most rankings",
    figure="ranking",
    statistic="share of the votes for gt_modular",
)
def gt_modular_wins(study: Study) -> Iterator[Evidence]:
    for distribution in (IN, OUT):
        rows = study.performance
        cast = votes(rows[rows["distribution"] == distribution])
        yield share_evidence(cast[cast["variant"] == "gt_modular"], distribution, 0.5, study.level)


@register_claim(
    "out_follows_in",
    text="the order out of distribution follows the order in distribution",
    figure="performance_vs_num_rules",
    statistic="rank agreement of the variants in and out of distribution",
)
def out_follows_in(study: Study) -> Iterator[Evidence]:
    rows = study.performance
    means = rows.groupby([*UNIT, "distribution", "variant"], observed=True)["value"].mean()
    table = means.unstack("distribution").reindex(columns=[IN, OUT]).dropna().reset_index()
    yield agreement_evidence(table, IN, OUT, "order of the variants", study)
