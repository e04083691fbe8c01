"""Claims about collapse and specialisation."""

from collections.abc import Iterator

import pandas as pd

from modtf.metrics import measures, smaller_is_better
from modtf.analysis.claims.base import Claim, Evidence, mean_evidence
from modtf.analysis.claims.trend import slopes
from modtf.analysis.paired import match_members
from modtf.analysis.random_baseline import random_baseline
from modtf.analysis.study import Study

LEARNED = ("modular", "modular_op")  # the variants that could collapse or fail to specialise


def measured(study: Study, measure: str, variant: str) -> pd.DataFrame:
    """The rows of one measure and variant, with `badness`: the value, turned so that larger is worse."""
    rows = study.results
    rows = rows[(rows["measure"] == measure) & (rows["variant"] == variant)]
    return rows.assign(badness=rows["value"] if smaller_is_better(measure) else -rows["value"])


def _growth(group: str, study: Study) -> Iterator[Evidence]:
    for measure in measures(group):
        for variant in LEARNED:
            trend = slopes(measured(study, measure.name, variant), "badness")
            yield mean_evidence(trend, "slope", f"{measure.name} of {variant}", study)


def _collapse_grows(study: Study) -> Iterator[Evidence]:
    return _growth("collapse", study)


def _specialisation_worsens(study: Study) -> Iterator[Evidence]:
    return _growth("specialisation", study)


def _modular_op_collapses_less(study: Study) -> Iterator[Evidence]:
    for measure in measures("collapse"):
        rows = study.results[study.results["measure"] == measure.name]
        pairs = match_members(rows, "modular_op", "modular")
        yield mean_evidence(pairs, "gain", measure.name, study)


def _above_random(group: str, sign: float, study: Study) -> Iterator[Evidence]:
    for measure in measures(group):
        for variant in LEARNED:
            rows = measured(study, measure.name, variant)
            random = random_baseline(rows["num_rules"].unique()).query("measure == @measure.name")
            better = sign if smaller_is_better(measure.name) else -sign
            baseline = rows["num_rules"].map(random.set_index("num_rules")["value"])
            rows = rows.assign(distance=better * (rows["value"] - baseline.astype(float)))
            yield mean_evidence(rows, "distance", f"{measure.name} against {variant}", study)


def _random_does_not_collapse(study: Study) -> Iterator[Evidence]:
    return _above_random("collapse", 1.0, study)


def _random_specialises_worst(study: Study) -> Iterator[Evidence]:
    return _above_random("specialisation", -1.0, study)


COLLAPSE_GROWS = Claim(
    text="collapse_avg and collapse_worst grow with the number of rules for modular and modular_op",
    figure="collapse_and_specialisation_vs_num_rules",
    statistic="growth of the measure per doubling of R",
    evidence=_collapse_grows,
)
SPECIALISATION_WORSENS = Claim(
    text="all three specialisation measures worsen with the number of rules",
    figure="collapse_and_specialisation_vs_num_rules",
    statistic="worsening of the measure per doubling of R",
    evidence=_specialisation_worsens,
)
MODULAR_OP_COLLAPSES_LESS = Claim(
    text="modular_op collapses less than modular",
    figure="collapse_and_specialisation_bars",
    statistic="collapse of modular less that of modular_op",
    evidence=_modular_op_collapses_less,
)
RANDOM_DOES_NOT_COLLAPSE = Claim(
    text="random activation does not collapse, learned activation does",
    figure="collapse_and_specialisation_bars",
    statistic="collapse of the variant less that of random",
    evidence=_random_does_not_collapse,
)
RANDOM_SPECIALISES_WORST = Claim(
    text="random activation has the worst specialisation",
    figure="collapse_and_specialisation_bars",
    statistic="by how much random is worse than the variant",
    evidence=_random_specialises_worst,
)
