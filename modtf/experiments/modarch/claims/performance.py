"""Claims about which variant performs better, and when."""

from collections.abc import Iterator

import pandas as pd

from modtf.analysis.claims.evidence import (
    RANKED,
    Evidence,
    agreement_evidence,
    mean_evidence,
    share_evidence,
)
from modtf.analysis.claims.numbers import advantage, slopes
from modtf.analysis.ranking import votes
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.claims import KEY, MODULAR, claim

NEGLIGIBLE = 0.1  # of the loss or error: less is no difference that a reader would act on
SMALL_SHARE = 0.5  # a small margin: less than this share of gt_modular's
FEW_RULES = 4
RELATIVE = "relative reduction of the loss or error"
AT_FEW = f"{RELATIVE} in distribution, R <= {FEW_RULES}"
DOUBLING = f"{RELATIVE} in distribution: growth per doubling of R"
RANKING, PAIRS, BY_RULES = "ranking", "paired_comparisons", "performance_vs_num_rules"


def _over(
    study: TrainedModels,
    first: str,
    second: str,
    distributions: tuple[str, ...] = (IN, OUT),
    above: float = 0.0,
) -> Iterator[Evidence]:
    for distribution in distributions:
        pairs = advantage(study, first, second, distribution)
        name = f"{first} over {second}, {distribution}"
        yield mean_evidence(pairs, "advantage", name, above, level=study.level)


def _few(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs[pairs["num_rules"] <= FEW_RULES]


def _growth(study: TrainedModels, first: str, second: str) -> Evidence:
    trend = slopes(advantage(study, first, second), "advantage")
    return mean_evidence(trend, "slope", f"{first} over {second}", level=study.level)


@claim("gt_modular_wins", RANKING, "share of the votes for gt_modular", "gt_modular wins most rankings")
def gt_modular_wins(study: TrainedModels) -> Iterator[Evidence]:
    for distribution in (IN, OUT):
        rows = study.performance
        cast = votes(rows[rows["distribution"] == distribution])
        yield share_evidence(cast[cast["variant"] == "gt_modular"], distribution, 0.5, study.level)


@claim(
    "monolithic_comparable_at_few_rules",
    BY_RULES,
    AT_FEW,
    f"with few rules (R <= {FEW_RULES}) monolithic does comparably",
)
def monolithic_comparable(study: TrainedModels) -> Iterator[Evidence]:
    for other in MODULAR:
        pairs, name = _few(advantage(study, "monolithic", other)), f"monolithic over {other}"
        yield mean_evidence(pairs, "advantage", name, above=-NEGLIGIBLE, level=study.level)


@claim(
    "no_advantage_at_few_rules",
    BY_RULES,
    AT_FEW,
    f"the advantage of gt_modular over modular is absent at few rules (R <= {FEW_RULES})",
)
def no_advantage(study: TrainedModels) -> Iterator[Evidence]:
    pairs = _few(advantage(study, "gt_modular", "modular"))
    yield mean_evidence(pairs, "advantage", "gt_modular over modular", within=NEGLIGIBLE, level=study.level)


@claim(
    "modular_small_margin",
    PAIRS,
    RELATIVE,
    "modular beats monolithic by a small margin, in and out of distribution",
)
def modular_small_margin(study: TrainedModels) -> Iterator[Evidence]:
    yield from _over(study, "modular", "monolithic")
    oracle = advantage(study, "gt_modular", "monolithic")[[*KEY, "advantage"]]
    both = advantage(study, "modular", "monolithic").merge(oracle, on=KEY, suffixes=("", "_oracle"))
    both["rest"] = SMALL_SHARE * both["advantage_oracle"] - both["advantage"]
    name = f"{SMALL_SHARE:.0%} of gt_modular's margin, less modular's"
    yield mean_evidence(both, "rest", name, level=study.level)


@claim("modular_op_beats_modular", PAIRS, RELATIVE, "modular_op beats modular, in and out of distribution")
def modular_op_beats_modular(study: TrainedModels) -> Iterator[Evidence]:
    return _over(study, "modular_op", "modular")


@claim(
    "modular_well_behind",
    PAIRS,
    RELATIVE,
    f"modular is well behind modular_op and gt_modular: by over {NEGLIGIBLE:.0%} of the loss or error",
)
def modular_well_behind(study: TrainedModels) -> Iterator[Evidence]:
    for first in ("modular_op", "gt_modular"):
        yield from _over(study, first, "modular", (IN,), above=NEGLIGIBLE)


@claim(
    "gt_modular_beats_modular_op", PAIRS, RELATIVE, "gt_modular beats modular_op, in and out of distribution"
)
def gt_modular_beats_modular_op(study: TrainedModels) -> Iterator[Evidence]:
    return _over(study, "gt_modular", "modular_op")


@claim(
    "advantages_out_of_distribution",
    BY_RULES,
    RELATIVE,
    "out of distribution too, every modular variant beats monolithic",
)
def advantages_out_of_distribution(study: TrainedModels) -> Iterator[Evidence]:
    for first in MODULAR:
        yield from _over(study, first, "monolithic", (OUT,))


@claim(
    "out_follows_in",
    BY_RULES,
    "rank agreement of the variants in and out of distribution",
    "the order out of distribution follows the order in distribution",
)
def out_follows_in(study: TrainedModels) -> Iterator[Evidence]:
    rows = study.performance
    means = rows.groupby([*RANKED, "distribution", "variant"], observed=True)["value"].mean()
    table = means.unstack("distribution").reindex(columns=[IN, OUT]).dropna().reset_index()
    yield agreement_evidence(table, IN, OUT, "order of the variants", study.level)


@claim("advantage_grows", BY_RULES, DOUBLING, "the advantage of gt_modular grows with the number of rules")
def advantage_grows(study: TrainedModels) -> Iterator[Evidence]:
    for other in ("monolithic", "modular"):
        yield _growth(study, "gt_modular", other)


@claim(
    "modular_op_advantage_grows",
    BY_RULES,
    DOUBLING,
    "the advantage of modular_op over modular grows with the number of rules",
)
def modular_op_advantage_grows(study: TrainedModels) -> Iterator[Evidence]:
    yield _growth(study, "modular_op", "modular")
