"""Claims about which of two variants is better."""

from collections.abc import Iterator

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.pairs import NEGLIGIBLE, RELATIVE, advantage
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.performance import IN, OUT
from modtf.analysis.study import Study
from modtf.results.schema import KIND

SMALL_SHARE = 0.5  # a small margin: less than this share of gt_modular's
FIGURE = "paired_comparisons"


def _over(
    study: Study, first: str, second: str, distributions: tuple[str, ...] = (IN, OUT), above: float = 0.0
) -> Iterator[Evidence]:
    for distribution in distributions:
        pairs = advantage(study, first, second, distribution)
        name = f"{first} over {second}, {distribution}"
        yield mean_evidence(pairs, "advantage", name, above, level=study.level)


@register_claim(
    "modular_small_margin",
    text="modular beats monolithic by a small margin, in and out of distribution",
    figure=FIGURE,
    statistic=RELATIVE,
)
def modular_small_margin(study: Study) -> Iterator[Evidence]:
    yield from _over(study, "modular", "monolithic")
    key = [*KIND, "num_rules", "width", "data_seed", "seed"]
    oracle = advantage(study, "gt_modular", "monolithic")[[*key, "advantage"]]
    both = advantage(study, "modular", "monolithic").merge(oracle, on=key, suffixes=("", "_oracle"))
    both["rest"] = SMALL_SHARE * both["advantage_oracle"] - both["advantage"]
    name = f"{SMALL_SHARE:.0%} of gt_modular's margin, less modular's"
    yield mean_evidence(both, "rest", name, level=study.level)


@register_claim(
    "modular_op_beats_modular",
    text="modular_op beats modular, in and out of distribution",
    figure=FIGURE,
    statistic=RELATIVE,
)
def modular_op_beats_modular(study: Study) -> Iterator[Evidence]:
    return _over(study, "modular_op", "modular")


@register_claim(
    "modular_well_behind",
    text=f"modular is well behind modular_op and gt_modular: by over {NEGLIGIBLE:.0%} of the loss or error",
    figure=FIGURE,
    statistic=RELATIVE,
)
def modular_well_behind(study: Study) -> Iterator[Evidence]:
    for first in ("modular_op", "gt_modular"):
        yield from _over(study, first, "modular", (IN,), above=NEGLIGIBLE)


@register_claim(
    "gt_modular_beats_modular_op",
    text="gt_modular beats modular_op, in and out of distribution",
    figure=FIGURE,
    statistic=RELATIVE,
)
def gt_modular_beats_modular_op(study: Study) -> Iterator[Evidence]:
    return _over(study, "gt_modular", "modular_op")


@register_claim(
    "advantages_out_of_distribution",
    text="out of distribution too, every modular variant beats monolithic",
    figure="performance_vs_num_rules",
    statistic=RELATIVE,
)
def advantages_out_of_distribution(study: Study) -> Iterator[Evidence]:
    for first in ("modular", "modular_op", "gt_modular"):
        yield from _over(study, first, "monolithic", (OUT,))
