"""Claims about specialisation: one rule, one module."""

from collections.abc import Iterator

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.measured import LEARNED, against_random, gains, margin, measures_in
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.study import Study
from modtf.results.schema import KIND

FIGURE = "collapse_and_specialisation_bars"
SMALL_SHARE = 0.5  # marginally better: by less than this share of what gt_modular is better by


@register_claim(
    "far_from_gt_modular",
    text="modular and modular_op specialise far less than gt_modular: by over a tenth of the measure's range",
    figure=FIGURE,
    statistic="by how much gt_modular is better",
)
def far_from_gt_modular(study: Study) -> Iterator[Evidence]:
    for measure in measures_in(study, "specialisation"):
        for variant in LEARNED:
            pairs = gains(study, measure, "gt_modular", variant)
            name = f"{measure.name} against {variant}"
            yield mean_evidence(pairs, "gain", name, above=margin(measure), level=study.level)


@register_claim(
    "modular_op_specialises_better",
    text="modular_op specialises marginally better than modular",
    figure=FIGURE,
    statistic="by how much modular_op is better",
)
def modular_op_specialises_better(study: Study) -> Iterator[Evidence]:
    key = [*KIND, "num_rules", "width", "data_seed", "seed"]
    for measure in measures_in(study, "specialisation"):
        pairs = gains(study, measure, "modular_op", "modular")
        yield mean_evidence(pairs, "gain", measure.name, level=study.level)
        oracle = gains(study, measure, "gt_modular", "modular")[[*key, "gain"]]
        both = pairs.merge(oracle, on=key, suffixes=("", "_oracle"))
        both["rest"] = SMALL_SHARE * both["gain_oracle"] - both["gain"]
        name = f"{measure.name}: {SMALL_SHARE:.0%} of gt_modular's gain, less modular_op's"
        yield mean_evidence(both, "rest", name, level=study.level)


@register_claim(
    "random_specialises_worst",
    text="learned activation specialises better than random: by over a tenth of the measure's range",
    figure=FIGURE,
    statistic="by how much random is worse than the variant",
)
def random_specialises_worst(study: Study) -> Iterator[Evidence]:
    for measure in measures_in(study, "specialisation"):
        for variant in LEARNED:
            rows = against_random(study, measure, variant)
            rows = rows.assign(better=-rows["distance"])
            name = f"{measure.name} against {variant}"
            yield mean_evidence(rows, "better", name, above=margin(measure), level=study.level)
