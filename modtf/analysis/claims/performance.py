"""Claims about which variant is best."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from modtf.analysis.claims.base import Claim, Evidence, mean_evidence
from modtf.analysis.claims.trend import slopes
from modtf.analysis.paired import match_members
from modtf.analysis.performance import IN, OUT
from modtf.analysis.ranking import votes
from modtf.analysis.study import Study

SMALL_SHARE = 0.5  # a small margin: less than this share of gt_modular's margin
NEGLIGIBLE = 0.1  # of the loss or error


def advantage(study: Study, first: str, second: str, condition: str = IN) -> pd.DataFrame:
    """`match_members` in one condition: `advantage` is by which share the first's loss or error is lower."""
    rows = study.performance
    return match_members(rows[rows["condition"] == condition], first, second)


def _gt_modular_wins(study: Study) -> Iterator[Evidence]:
    for condition in (IN, OUT):
        rows = study.performance
        cast = votes(rows[rows["condition"] == condition])
        cast = cast[cast["variant"] == "gt_modular"]
        yield mean_evidence(cast, "vote", condition, study, above=0.5)


def _modular_small_margin(study: Study) -> Iterator[Evidence]:
    pairs = advantage(study, "modular", "monolithic")
    yield mean_evidence(pairs, "advantage", "modular over monolithic", study)
    key = ["arch", "setting", "search", "num_rules", "width", "data_seed", "seed"]
    oracle = advantage(study, "gt_modular", "monolithic")[[*key, "advantage"]]
    both = pairs.merge(oracle, on=key, suffixes=("", "_oracle"))
    both["rest"] = SMALL_SHARE * both["advantage_oracle"] - both["advantage"]
    yield mean_evidence(both, "rest", f"{SMALL_SHARE:.0%} of gt_modular's margin, less modular's", study)


def _advantage_grows(study: Study) -> Iterator[Evidence]:
    for other in ("monolithic", "modular"):
        trend = slopes(advantage(study, "gt_modular", other), "advantage")
        yield mean_evidence(trend, "slope", f"gt_modular over {other}", study)


def _no_advantage_at_few_rules(study: Study) -> Iterator[Evidence]:
    pairs = advantage(study, "gt_modular", "modular")
    fewest = pairs["num_rules"].min() if len(pairs) else np.nan
    few = pairs[pairs["num_rules"] == fewest]
    name = f"gt_modular over modular, R = {fewest}" if len(few) else "gt_modular over modular"
    yield mean_evidence(few, "advantage", name, study, within=NEGLIGIBLE)


def _modular_op_beats_modular(study: Study) -> Iterator[Evidence]:
    pairs = advantage(study, "modular_op", "modular")
    yield mean_evidence(pairs, "advantage", "modular_op over modular", study)


RELATIVE = "relative reduction of the loss or error, in distribution"

GT_MODULAR_WINS = Claim(
    text="gt_modular wins most rankings",
    figure="ranking",
    statistic="share of the votes for gt_modular",
    evidence=_gt_modular_wins,
)
MODULAR_SMALL_MARGIN = Claim(
    text="modular beats monolithic by a small margin",
    figure="paired_comparisons",
    statistic=RELATIVE,
    evidence=_modular_small_margin,
)
ADVANTAGE_GROWS = Claim(
    text="the advantage of gt_modular grows with the number of rules",
    figure="performance_vs_num_rules",
    statistic=f"{RELATIVE}: growth per doubling of R",
    evidence=_advantage_grows,
)
NO_ADVANTAGE_AT_FEW_RULES = Claim(
    text="the advantage of gt_modular is absent at few rules",
    figure="performance_vs_num_rules",
    statistic=RELATIVE,
    evidence=_no_advantage_at_few_rules,
)
MODULAR_OP_BEATS_MODULAR = Claim(
    text="modular_op beats modular",
    figure="paired_comparisons",
    statistic=RELATIVE,
    evidence=_modular_op_beats_modular,
)
