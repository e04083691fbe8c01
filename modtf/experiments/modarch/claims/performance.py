"""Claims about which variant performs better, and when."""

from dataclasses import replace

import numpy as np
import pandas as pd

from modtf.analysis.claims.evidence import (
    RANKED,
    Evidence,
    advantage,
    agreement_evidence,
    mean_evidence,
    share_evidence,
    slopes,
)
from modtf.analysis.claims.registry import Found
from modtf.analysis.labels import known_variants
from modtf.analysis.pairs import votes
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.claims import KEY, MODULAR, claim
from modtf.tasks.cell import VARIANTS

NEGLIGIBLE = 0.1  # of the loss or error: a smaller difference has no practical use
SMALL_SHARE = 0.5  # a small margin: less than this share of gt_modular's
FEW_RULES = 4
RELATIVE = "relative reduction of the loss or error"
AT_FEW = f"{RELATIVE} in distribution, R <= {FEW_RULES}"
DOUBLING = f"{RELATIVE} in distribution: growth per doubling of R"
PAIRS, BY_RULES = "paired_comparisons", "performance_vs_num_rules"


def _over(study: TrainedModels, first: str, second: str, *where: str, above: float = 0.0) -> Found:
    for distribution in where or (IN, OUT):
        pairs = advantage(study, first, second, distribution)
        name = f"{first} over {second}, {distribution}"
        yield mean_evidence(pairs, "advantage", name, above, level=study.level)


def _few(study: TrainedModels, first: str, second: str, **bounds: float) -> Evidence:
    pairs = advantage(study, first, second)
    few = pairs[pairs["num_rules"] <= FEW_RULES]
    return mean_evidence(few, "advantage", f"{first} over {second}", level=study.level, **bounds)


def _growth(study: TrainedModels, first: str, second: str) -> Found:
    pairs, name = advantage(study, first, second), f"{first} over {second}"
    yield mean_evidence(slopes(pairs, "advantage"), "slope", name, level=study.level)
    raw = mean_evidence(slopes(pairs, "gain"), "slope", f"{name}, raw loss or error", level=study.level)
    yield replace(raw, shown_only=True)


@claim("ranking", "share of the votes for gt_modular")
def gt_modular_wins(study: TrainedModels) -> Found:
    """gt_modular wins most rankings."""
    candidates = [name for name in known_variants(study.results["arch"].unique()) if name in VARIANTS]
    for distribution in (IN, OUT):
        cast = votes(study.performance[study.performance["distribution"] == distribution], candidates)
        yield share_evidence(cast[cast["variant"] == "gt_modular"], distribution, 0.5, study.level)


@claim(BY_RULES, AT_FEW)
def monolithic_comparable_at_few_rules(study: TrainedModels) -> Found:
    """with few rules (R <= 4) monolithic does comparably."""
    for other in MODULAR:
        yield _few(study, "monolithic", other, above=-NEGLIGIBLE)


@claim(BY_RULES, AT_FEW)
def no_advantage_at_few_rules(study: TrainedModels) -> Found:
    """the advantage of gt_modular over modular is absent at few rules (R <= 4)."""
    yield _few(study, "gt_modular", "modular", within=NEGLIGIBLE)


@claim(PAIRS, RELATIVE)
def modular_small_margin(study: TrainedModels) -> Found:
    """modular beats monolithic by a small margin, in and out of distribution."""
    yield from _over(study, "modular", "monolithic")
    oracle = advantage(study, "gt_modular", "monolithic")[[*KEY, "advantage"]]
    both = advantage(study, "modular", "monolithic").merge(oracle, on=KEY, suffixes=("", "_oracle"))
    both["rest"] = SMALL_SHARE * both["advantage_oracle"] - both["advantage"]
    name = f"{SMALL_SHARE:.0%} of gt_modular's margin, less modular's"
    yield mean_evidence(both, "rest", name, level=study.level)


@claim(PAIRS, RELATIVE)
def modular_op_beats_modular(study: TrainedModels) -> Found:
    """modular_op beats modular, in and out of distribution."""
    return _over(study, "modular_op", "modular")


@claim(PAIRS, RELATIVE)
def modular_well_behind(study: TrainedModels) -> Found:
    """modular is well behind modular_op and gt_modular: by over 10% of the loss or error."""
    for first in ("modular_op", "gt_modular"):
        yield from _over(study, first, "modular", IN, above=NEGLIGIBLE)


@claim(PAIRS, RELATIVE)
def gt_modular_beats_modular_op(study: TrainedModels) -> Found:
    """gt_modular beats modular_op, in and out of distribution."""
    return _over(study, "gt_modular", "modular_op")


@claim(BY_RULES, RELATIVE)
def advantages_out_of_distribution(study: TrainedModels) -> Found:
    """out of distribution too, every modular variant beats monolithic."""
    for first in MODULAR:
        yield from _over(study, first, "monolithic", OUT)


@claim(BY_RULES, "rank agreement of the variants in and out of distribution")
def out_follows_in(study: TrainedModels) -> Found:
    """the order out of distribution follows the order in distribution."""
    rows = study.performance
    sides = []
    for where in (IN, OUT):
        by_variant = rows[rows["distribution"] == where].groupby([*RANKED, "variant"], observed=True)["value"]
        sides.append(by_variant.agg(lambda values: values.mean(skipna=False)).rename(where))
    table = pd.concat(sides, axis=1, join="inner").reset_index()
    table[IN] = table[IN].where(
        np.isfinite(table[IN])
    )  # NaN: diverged. If only the loss out of it is infinite, it ranks last
    yield agreement_evidence(table, IN, OUT, "order of the variants", study.level)


@claim(BY_RULES, DOUBLING)
def advantage_grows(study: TrainedModels) -> Found:
    """the advantage of gt_modular grows with the number of rules."""
    for other in ("monolithic", "modular"):
        yield from _growth(study, "gt_modular", other)


@claim(BY_RULES, DOUBLING)
def modular_op_advantage_grows(study: TrainedModels) -> Found:
    """the advantage of modular_op over modular grows with the number of rules."""
    return _growth(study, "modular_op", "modular")
