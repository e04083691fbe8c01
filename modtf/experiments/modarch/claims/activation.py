"""Claims about collapse (modules that no rule uses) and specialisation (one rule, one module)."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from modtf.analysis.claims.evidence import RANKED, Evidence, agreement_evidence, mean_evidence
from modtf.analysis.claims.numbers import (
    MARGIN,
    against_random,
    gains,
    measured,
    measures_in,
    share_lost,
    slopes,
)
from modtf.analysis.rows import IN, performance_rows
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.claims import KEY, LEARNED, claim
from modtf.families import IID
from modtf.metrics import Measure

BARS, BY_RULES = (f"collapse_and_specialisation_{name}" for name in ("bars", "vs_num_rules"))
SMALL_SHARE = 0.5  # marginally better: by less than this share of what gt_modular is better by
GIVEN = ("gt_modular", "uniform", "clamped")  # routers that learn nothing
MODEL = [*RANKED, "variant", "seed"]

Found = Iterator[Evidence]


@claim(BARS, "share of total collapse: modular, modular_op less random; gt_modular")
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
    """That a difference is more than a tenth of what can be lost."""
    rows = rows.assign(share=share_lost(measure, rows[column], rows["num_rules"]))
    return mean_evidence(rows, "share", name, above=MARGIN, level=study.level)


def _grow(group: str, study: TrainedModels) -> Found:
    for measure, variant in product(measures_in(study, group), LEARNED):
        trend = slopes(measured(study, measure, variant), "badness")
        yield mean_evidence(trend, "slope", f"{measure.name} of {variant}", level=study.level)


@claim(BY_RULES, "growth of the measure per doubling of R")
def collapse_grows(study: TrainedModels) -> Found:
    """the collapse of modular and modular_op grows with the number of rules."""
    return _grow("collapse", study)


@claim(BARS, "collapse of modular less that of modular_op")
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


def steps_to_threshold(history: pd.DataFrame) -> pd.DataFrame:
    """The steps after which every model reaches a performance that all variants of its task reach.

    The threshold of a task (cell without variant, and data seed) is the best performance that the median
    model of each variant reaches, of the variant where that is worst. Returns the columns of `MODEL` and
    `steps`, of the first evaluation at or below the threshold; infinite for a model that never gets there.
    Models that diverged have no row."""
    rows = performance_rows(history, headline=False)
    rows = rows[(rows["condition"] == IID) & np.isfinite(rows["value"])]
    best = rows.groupby(MODEL, observed=True)["value"].min()
    of_variant = best.groupby([*RANKED, "variant"], observed=True).median()
    threshold = of_variant.groupby(RANKED, observed=True).max().rename("threshold").reset_index()
    rows = rows.merge(threshold, on=RANKED)
    reached = rows[rows["value"] <= rows["threshold"]].groupby(MODEL, observed=True)["step"].min()
    return reached.reindex(best.index).fillna(np.inf).rename("steps").reset_index()


def _learning(study: TrainedModels) -> TrainedModels:
    """Without the models whose routing was given, not learned: their specialisation says nothing of it."""
    names = study.results.loc[~study.results["router"].isin(GIVEN), "variant"].unique()
    return study.of_variants(list(names))


def _agree(study: TrainedModels, other: pd.DataFrame, column: str) -> Found:
    """The rank agreement of every measure of specialisation with a number of the same models."""
    for measure in measures_in(study, "specialisation"):
        rows = study.results[study.results["measure"] == measure.name].dropna(subset="value")
        sign = 1.0 if measure.smaller_is_better else -1.0
        both = rows[[*MODEL, "value"]].merge(other[[*MODEL, column]], on=MODEL).dropna()
        both = both.assign(badness=sign * both["value"])
        yield agreement_evidence(both, "badness", column, measure.name, study.level)


def _beside(found: Found) -> Found:
    return (replace(piece, name=f"{piece.name}, with gt_modular", beside=True) for piece in found)


@claim(BY_RULES, "rank agreement of the measure with the loss or error in distribution")
def specialised_perform_better(study: TrainedModels) -> Found:
    """among models that learn their routing the better specialised also perform better."""
    rows = study.performance
    rows = rows[rows["distribution"] == IN].rename(columns={"value": "performance"})
    yield from _agree(_learning(study), rows, "performance")
    yield from _beside(_agree(study, rows, "performance"))


@claim(
    "training_curves", "rank agreement of the measure with the steps to a threshold common to the variants"
)
def specialised_train_faster(study: TrainedModels) -> Found:
    """among models that learn their routing the better specialised also train faster."""
    several = study.of_variants(study.results.loc[study.results["num_modules"] > 1, "variant"].unique())
    for part, turned in ((_learning(several), iter), (several, _beside)):
        if not part.history.empty:
            yield from turned(_agree(part, steps_to_threshold(part.history), "steps"))
