"""Claims about collapse: modules that no rule uses."""

from collections.abc import Iterator

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.measured import LEARNED, against_random, gains, margin, measured, measures_in
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.study import Study

FIGURE = "collapse_and_specialisation_bars"


@register_claim(
    "learned_activation_collapses",
    text="modular and modular_op collapse; random and gt_modular activation does not",
    figure=FIGURE,
    statistic="collapse of modular, modular_op less that of random; of gt_modular",
)
def learned_activation_collapses(study: Study) -> Iterator[Evidence]:
    for measure in measures_in(study, "collapse"):
        for variant in LEARNED:
            rows = against_random(study, measure, variant)
            name = f"{measure.name} of {variant} less random"
            yield mean_evidence(rows, "distance", name, above=margin(measure), level=study.level)
        oracle = measured(study, measure, "gt_modular")
        oracle = oracle.assign(off=oracle["value"] - measure.perfect)
        name = f"{measure.name} of gt_modular"
        yield mean_evidence(oracle, "off", name, within=margin(measure), level=study.level)


@register_claim(
    "modular_op_collapses_less",
    text="modular_op collapses less than modular",
    figure=FIGURE,
    statistic="collapse of modular less that of modular_op",
)
def modular_op_collapses_less(study: Study) -> Iterator[Evidence]:
    for measure in measures_in(study, "collapse"):
        pairs = gains(study, measure, "modular_op", "modular")
        yield mean_evidence(pairs, "gain", measure.name, level=study.level)
