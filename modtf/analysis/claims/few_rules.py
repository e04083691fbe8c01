"""Claims about few rules: R <= 4."""

from collections.abc import Iterator

import pandas as pd

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.pairs import NEGLIGIBLE, RELATIVE, advantage
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.study import Study

FEW_RULES = 4


def _few(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs[pairs["num_rules"] <= FEW_RULES]


@register_claim(
    "monolithic_comparable_at_few_rules",
    text=f"with few rules (R <= {FEW_RULES}) monolithic does comparably",
    figure="performance_vs_num_rules",
    statistic=f"{RELATIVE} in distribution, R <= {FEW_RULES}",
)
def monolithic_comparable(study: Study) -> Iterator[Evidence]:
    for other in ("modular", "modular_op", "gt_modular"):
        pairs = _few(advantage(study, "monolithic", other))
        yield mean_evidence(
            pairs, "advantage", f"monolithic over {other}", above=-NEGLIGIBLE, level=study.level
        )


@register_claim(
    "no_advantage_at_few_rules",
    text=f"the advantage of gt_modular over modular is absent at few rules (R <= {FEW_RULES})",
    figure="performance_vs_num_rules",
    statistic=f"{RELATIVE} in distribution, R <= {FEW_RULES}",
)
def no_advantage(study: Study) -> Iterator[Evidence]:
    pairs = _few(advantage(study, "gt_modular", "modular"))
    yield mean_evidence(pairs, "advantage", "gt_modular over modular", within=NEGLIGIBLE, level=study.level)
