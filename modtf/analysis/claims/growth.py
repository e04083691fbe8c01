"""Claims about what grows with the number of rules."""

from collections.abc import Iterator

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.measured import LEARNED, measured, measures_in
from modtf.analysis.claims.pairs import RELATIVE, advantage
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.claims.trend import slopes
from modtf.analysis.study import Study

DOUBLING = f"{RELATIVE} in distribution: growth per doubling of R"


def _advantage_grows(study: Study, first: str, second: str) -> Evidence:
    trend = slopes(advantage(study, first, second), "advantage")
    return mean_evidence(trend, "slope", f"{first} over {second}", level=study.level)


@register_claim(
    "advantage_grows",
    text="the advantage of gt_modular grows with the number of rules",
    figure="performance_vs_num_rules",
    statistic=DOUBLING,
)
def advantage_grows(study: Study) -> Iterator[Evidence]:
    for other in ("monolithic", "modular"):
        yield _advantage_grows(study, "gt_modular", other)


@register_claim(
    "modular_op_advantage_grows",
    text="the advantage of modular_op over modular grows with the number of rules",
    figure="performance_vs_num_rules",
    statistic=DOUBLING,
)
def modular_op_advantage_grows(study: Study) -> Iterator[Evidence]:
    yield _advantage_grows(study, "modular_op", "modular")


def _measures_grow(group: str, study: Study) -> Iterator[Evidence]:
    for measure in measures_in(study, group):
        for variant in LEARNED:
            trend = slopes(measured(study, measure, variant), "badness")
            yield mean_evidence(trend, "slope", f"{measure.name} of {variant}", level=study.level)


@register_claim(
    "collapse_grows",
    text="the collapse of modular and modular_op grows with the number of rules",
    figure="collapse_and_specialisation_vs_num_rules",
    statistic="growth of the measure per doubling of R",
)
def collapse_grows(study: Study) -> Iterator[Evidence]:
    return _measures_grow("collapse", study)


@register_claim(
    "specialisation_worsens",
    text="the specialisation of modular and modular_op worsens with the number of rules",
    figure="collapse_and_specialisation_vs_num_rules",
    statistic="worsening of the measure per doubling of R",
)
def specialisation_worsens(study: Study) -> Iterator[Evidence]:
    return _measures_grow("specialisation", study)
