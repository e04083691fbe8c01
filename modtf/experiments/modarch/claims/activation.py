"""Claims about collapse (modules that no rule uses) and specialisation (one rule, one module)."""

from collections.abc import Callable
from functools import wraps
from itertools import product

import pandas as pd

from modtf.analysis.claims.evidence import (
    MARGIN,
    Evidence,
    against_random,
    gains,
    mean_evidence,
    measured,
    measures_in,
    share_lost,
    slopes,
)
from modtf.analysis.claims.registry import Found
from modtf.analysis.rows import has_unequal_rules
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.claims import KEY, LEARNED, claim
from modtf.metrics import Measure

BARS, BY_RULES = (f"collapse_and_specialisation_{name}" for name in ("bars", "vs_num_rules"))
SMALL_SHARE = 0.5  # marginally better: by less than this share of gt_modular's gain
UNEQUAL = Evidence("collapse", lacking="rules are unequally frequent, so perfect routing collapses, too")


def _needs_equal_rules(find: Callable[[TrainedModels], Found]) -> Callable[[TrainedModels], Found]:
    """Return a claim about collapse that says why it is not judged if rules are unequally frequent."""

    @wraps(find)
    def found(study: TrainedModels) -> Found:
        return iter([UNEQUAL]) if has_unequal_rules(study.results) else find(study)

    return found


@claim(BARS, "share of total collapse: modular, modular_op less random; gt_modular")
@_needs_equal_rules
def learned_activation_collapses(study: TrainedModels) -> Found:
    """modular and modular_op collapse; random and gt_modular activation does not."""
    for measure in measures_in(study, "collapse"):
        for variant in LEARNED:
            rows = against_random(study, measure, variant)
            yield _share(study, measure, rows, "distance", f"{measure.name} of {variant} less random")
        oracle = measured(study, measure, "gt_modular")
        off = share_lost(measure, oracle["value"] - measure.perfect, oracle["num_rules"])
        name = f"{measure.name} of gt_modular"
        yield mean_evidence(oracle.assign(off=off), "off", name, within=MARGIN, level=study.level)


def _share(study: TrainedModels, measure: Measure, rows: pd.DataFrame, column: str, name: str) -> Evidence:
    """Return the evidence that a difference exceeds a tenth of what can be lost."""
    rows = rows.assign(share=share_lost(measure, rows[column], rows["num_rules"]))
    return mean_evidence(rows, "share", name, above=MARGIN, level=study.level)


def _grow(group: str, study: TrainedModels) -> Found:
    for measure, variant in product(measures_in(study, group), LEARNED):
        trend = slopes(measured(study, measure, variant), "badness")
        yield mean_evidence(trend, "slope", f"{measure.name} of {variant}", level=study.level)


@claim(BY_RULES, "growth of the measure per doubling of R")
@_needs_equal_rules
def collapse_grows(study: TrainedModels) -> Found:
    """the collapse of modular and modular_op grows with the number of rules."""
    return _grow("collapse", study)


@claim(BARS, "collapse of modular less that of modular_op")
@_needs_equal_rules
def modular_op_collapses_less(study: TrainedModels) -> Found:
    """modular_op collapses less than modular."""
    for measure in measures_in(study, "collapse"):
        pairs = gains(study, measure, "modular_op", "modular")
        yield mean_evidence(pairs, "gain", measure.name, level=study.level)


@claim(BARS, "by how much gt_modular is better, as a share of what can be lost")
def far_from_gt_modular(study: TrainedModels) -> Found:
    """modular and modular_op specialise far less than gt_modular: by over a tenth of what can be lost."""
    for measure, variant in product(measures_in(study, "specialisation"), LEARNED):
        pairs, name = gains(study, measure, "gt_modular", variant), f"{measure.name} against {variant}"
        yield _share(study, measure, pairs, "gain", name)


@claim(BY_RULES, "worsening of the measure per doubling of R")
def specialisation_worsens(study: TrainedModels) -> Found:
    """the specialisation of modular and modular_op worsens with the number of rules."""
    return _grow("specialisation", study)


@claim(BARS, "by how much modular_op is better")
def modular_op_specialises_better(study: TrainedModels) -> Found:
    """modular_op specialises marginally better than modular."""
    for measure in measures_in(study, "specialisation"):
        pairs = gains(study, measure, "modular_op", "modular")
        yield mean_evidence(pairs, "gain", measure.name, level=study.level)
        oracle = gains(study, measure, "gt_modular", "modular")[[*KEY, "gain"]]
        both = pairs.merge(oracle, on=KEY, suffixes=("", "_oracle"))
        both["rest"] = SMALL_SHARE * both["gain_oracle"] - both["gain"]
        name = f"{measure.name}: {SMALL_SHARE:.0%} of gt_modular's gain, less modular_op's"
        yield mean_evidence(both, "rest", name, level=study.level)


@claim(BARS, "by how much random is worse than the variant, as a share of what can be lost")
def random_specialises_worst(study: TrainedModels) -> Found:
    """learned activation specialises better than random: by over a tenth of what can be lost."""
    for measure, variant in product(measures_in(study, "specialisation"), LEARNED):
        rows, name = against_random(study, measure, variant), f"{measure.name} against {variant}"
        yield _share(study, measure, rows.assign(better=-rows["distance"]), "better", name)
