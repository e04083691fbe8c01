"""The claims of the paper, judged by median accuracies; data seeds are the units, margins are ours."""

import math
from collections.abc import Callable
from functools import partial, update_wrapper
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import Found, documented_claim, register_claim
from modtf.analysis.learned import variants_learned
from modtf.analysis.trained import TrainedModels
from modtf.experiments.corruptions import FORMULAS, RELEASED, invariance_measure
from modtf.experiments.corruptions.accuracy import (
    SIZES,
    by_parts,
    chance,
    clean_networks,
    methods,
    published_ceiling,
    with_invariance,
)
from modtf.results.schema import KIND

METHODS = ("erm", "contrastive", "modular")
LITTLE = 3.5  # points: a small difference between erm and contrastive
NEAR_CHANCE, NEAR_CEILING = 2.0, 4.0  # points
NO_CORRELATION = 0.3
LITTLE_INVARIANCE = 0.1
LOWEST = "severity=lowest"
SITES = "trainer.sites="  # in the name of a variant
SEVERAL = 2  # the smallest number of corruptions in a composition

FAMILY = ("corruptions",)
claim = partial(documented_claim, families=FAMILY)


def _gain(rows: pd.DataFrame, first: str, second: str, value: str = "accuracy") -> pd.DataFrame:
    """By how much the first variant has more, for the same task, seed and everything else but options."""
    key = [name for name in (*KIND, "width", "data_seed", "seed", "parts", "condition") if name in rows]
    sides = [rows[rows["variant"] == name][[*key, value]] for name in (first, second)]
    both = sides[0].merge(sides[1], on=key, suffixes=("_first", "_second"))
    return both.assign(gain=both[f"{value}_first"] - both[f"{value}_second"])


def _of(rows: pd.DataFrame, variant: str, parts: int) -> pd.DataFrame:
    return rows[(rows["variant"] == variant) & (rows["parts"] == parts)]


@claim("corruptions_accuracy", "points of accuracy by which modular is better")
def modular_composes(study: TrainedModels) -> Found:
    """with two to four corruptions modular is better than erm and than contrastive."""
    rows = methods(by_parts(study), study)
    for parts in (2, 3, 4):
        for other in METHODS[:2]:
            pairs = _gain(rows[rows["parts"] == parts], "modular", other)
            yield mean_evidence(pairs, "gain", f"over {other}, k = {parts}", level=study.level)


@claim("corruptions_accuracy", "points of accuracy between contrastive and erm")
def invariance_changes_little(study: TrainedModels) -> Found:
    """contrastive is within 3.5 points of erm, with any number of corruptions."""
    rows = methods(by_parts(study), study)
    for parts in SIZES:
        pairs = _gain(rows[rows["parts"] == parts], "contrastive", "erm")
        yield mean_evidence(pairs, "gain", f"k = {parts}", within=LITTLE, level=study.level)


@claim("corruptions_accuracy", "points of accuracy lost by one more corruption; above chance")
def accuracy_falls(study: TrainedModels) -> Found:
    """accuracy falls with every corruption, of erm and contrastive to within 2 points of chance at five."""
    rows = methods(by_parts(study), study)
    for variant in METHODS:
        for parts in SIZES[:-1]:
            fewer, more = _of(rows, variant, parts), _of(rows, variant, parts + 1)
            both = fewer.merge(more, on=[*KIND, "width", "data_seed", "seed"])
            both = both.assign(lost=both["accuracy_x"] - both["accuracy_y"])
            yield mean_evidence(both, "lost", f"{variant}, k = {parts} to {parts + 1}", level=study.level)
    for variant in METHODS[:2]:
        for parts in (5, 6):
            accuracies = _of(rows, variant, parts)
            accuracies = accuracies.assign(above=accuracies["accuracy"] - chance(study.results))
            name = f"{variant}, k = {parts}, above chance"
            yield mean_evidence(accuracies, "above", name, within=NEAR_CHANCE, level=study.level)


@claim("corruptions_accuracy", "points of accuracy above the clean network of modular for the same task")
def single_corruptions_are_learned(study: TrainedModels) -> Found:
    """under single corruptions every method is at most 4 points worse than a network of clean images."""
    rows, clean = methods(by_parts(study), study), clean_networks(study)
    published = published_ceiling(study)
    for variant in METHODS:
        singles = _of(rows, variant, 1)
        if len(clean):
            singles = singles.merge(clean, on=[*KIND, "width", "data_seed", "seed"], suffixes=("", "_clean"))
        elif math.isfinite(published):
            singles = singles.assign(accuracy_clean=published)
        else:
            yield Evidence(variant, lacking="no clean network: no modular, and not the published protocol")
            continue
        singles = singles.assign(above=singles["accuracy"] - singles["accuracy_clean"])
        yield mean_evidence(singles, "above", variant, above=-NEAR_CEILING, level=study.level)


def correlations(rows: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Pearson's r of two columns over the compositions of every model: the columns of a model, and `r`, which
    is NaN where a column does not vary."""
    coefficients = []
    key = [*KIND, "width", "variant", "data_seed", "seed"]
    for model, part in rows.groupby(key, observed=True):
        part = part[[first, second]].dropna()
        varies = len(part) > 2 and (part.std() > 0).all()
        coefficients.append((*model, np.corrcoef(part.T)[0, 1] if varies else np.nan))
    return pd.DataFrame(coefficients, columns=[*key, "r"])


def invariance_claim(statistic: str) -> Callable[[Callable[[TrainedModels, str], Found]], Any]:
    """Return a decorator that registers a claim twice: by the formula of the paper, and by that of the
    released code, from which the published figures are."""

    def add(find: Callable[[TrainedModels, str], Found]) -> Any:
        for formula in FORMULAS:
            text = str(find.__doc__).rstrip(".") + (
                ", by the released code's formula" if formula == RELEASED else ""
            )
            named = update_wrapper(partial(_if_measured, find, formula), find)
            named.__qualname__ = name = invariance_measure(find.__name__, formula)
            register_claim(
                name, text=text, figure="corruptions_invariance", statistic=statistic, families=FAMILY
            )(named)
        return find

    return add


def _if_measured(find: Callable[..., Found], formula: str, study: TrainedModels) -> Found:
    if with_invariance(study, formula).empty:
        yield Evidence("I_e and I_c", lacking=f"not measured with the formula of the {formula}")
        return
    yield from find(study, formula)


def _correlated(
    study: TrainedModels, formula: str, first: str, second: str, sign: float = 1.0, **bounds: float
) -> Found:
    rows = methods(with_invariance(study, formula), study)
    coefficients = correlations(rows[rows["parts"] >= SEVERAL], first, second)
    coefficients = coefficients.assign(r=sign * coefficients["r"])
    learned = methods(pd.DataFrame({"variant": variants_learned(study)}), study)["variant"]
    for variant in METHODS:
        of = coefficients[coefficients["variant"] == variant]
        if variant in set(learned) or of.empty:
            yield mean_evidence(of, "r", variant, level=study.level, **bounds)
        else:
            yield Evidence(variant, lacking="it has not learned")


@invariance_claim("correlation of I_e with accuracy, over compositions")
def elemental_invariance_says_nothing(study: TrainedModels, formula: str) -> Found:
    """invariance to single corruptions does not go with accuracy on compositions: |r| < 0.3."""
    return _correlated(study, formula, "elemental", "accuracy", within=NO_CORRELATION)


@invariance_claim("correlation of I_c with accuracy, over compositions")
def composed_invariance_goes_with_accuracy(study: TrainedModels, formula: str) -> Found:
    """invariance to compositions goes with accuracy on them."""
    return _correlated(study, formula, "composed", "accuracy")


@invariance_claim("- correlation of I_e with I_c, over compositions")
def elemental_invariance_does_not_compose(study: TrainedModels, formula: str) -> Found:
    """invariance to single corruptions does not go with that to compositions: r < 0.3."""
    return _correlated(study, formula, "elemental", "composed", sign=-1.0, above=-NO_CORRELATION)


@invariance_claim("gain of I_e by the contrastive loss; distance from 0.1")
def contrastive_raises_invariance(study: TrainedModels, formula: str) -> Found:
    """the contrastive loss raises invariance to single corruptions, by less than 0.1."""
    pairs = _gain(methods(with_invariance(study, formula), study), "contrastive", "erm", "elemental")
    yield mean_evidence(pairs, "gain", "raised", level=study.level)
    rest = pairs.assign(rest=LITTLE_INVARIANCE - pairs["gain"])
    yield mean_evidence(rest, "rest", "by less than 0.1", level=study.level)


@claim("corruptions_accuracy", "points of accuracy gained; points by which the better method stays better")
def lowest_severity_is_easier(study: TrainedModels) -> Found:
    """at the lowest severity accuracy on two to four corruptions is higher, and methods keep their order."""
    arch, setting, options = study.kinds[0]
    kind = arch, setting, ",".join(part for part in options.split(",") if part != LOWEST)
    if kind[2] == options or kind not in study.whole.kinds:
        yield Evidence("gain", lacking="no models of both severities")
        return
    key = ["width", "variant", "data_seed", "seed", "parts"]
    main = study.whole.part(*kind)
    unlike = _trained_otherwise(study, main)
    for variant in unlike:
        yield Evidence(variant, lacking="trained in another way than at the main severity")
    rows = by_parts(study).merge(by_parts(main)[[*key, "accuracy"]], on=key, suffixes=("", "_main"))
    rows = rows[~rows["variant"].isin(unlike)]
    rows = rows.assign(variant=rows["variant"].astype(str), gain=rows["accuracy"] - rows["accuracy_main"])
    for parts in (2, 3, 4):
        some = rows[rows["parts"] == parts]
        for variant, of in some.groupby("variant"):
            yield mean_evidence(of, "gain", f"{variant}, k = {parts}", level=study.level)
        order = some.groupby("variant")["accuracy_main"].mean().sort_values(ascending=False).index
        for better, worse in pairwise(order):
            ahead = _gain(some, better, worse)
            yield mean_evidence(ahead, "gain", f"{better} over {worse}, k = {parts}", level=study.level)


def _trained_otherwise(first: TrainedModels, second: TrainedModels) -> list[str]:
    """Return the variants of both whose protocol, or learning rate, is not the same in both."""
    ways = [part.results.groupby("variant", observed=True)["protocol"].agg(set) for part in (first, second)]
    return [str(name) for name in ways[0].index.intersection(ways[1].index) if ways[0][name] != ways[1][name]]


@claim("corruptions_accuracy", "points that a model is further from the mean of its variant, at k = 3")
def modular_spreads_at_three(study: TrainedModels) -> Found:
    """with three corruptions modular differs more between seeds than erm, contrastive and fixed sites do."""
    every = by_parts(study)
    every = every[every["parts"] == 3]
    rows = methods(every, study)
    chosen = every.loc[rows["variant"] == "modular", "variant"].astype(str).unique()
    if any(SITES in name for name in chosen):
        yield Evidence("modular", lacking="its sites were given, not searched for")
        return
    fixed = [name for name in rows["variant"].unique() if SITES in name]
    for other in (*METHODS[:2], *fixed):
        yield mean_evidence(_farther(rows, other), "gain", f"against {other}", level=study.level)


def _farther(rows: pd.DataFrame, other: str) -> pd.DataFrame:
    """By how much modular is further than another variant from its mean over the models that both have."""
    pairs = _gain(rows, "modular", other)
    sides = pairs[["accuracy_first", "accuracy_second"]].where(pairs["gain"].notna(), axis=0)
    means = sides.groupby([pairs[name] for name in (*KIND, "width")], observed=True).transform("mean")
    distances = (sides - means).abs()
    return pairs.assign(gain=distances["accuracy_first"] - distances["accuracy_second"])
