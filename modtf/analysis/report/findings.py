"""The verdict on a study: sentences made from its numbers."""

import numpy as np
import pandas as pd

from modtf.analysis.intervals import UNIT, intervals
from modtf.analysis.labels import CHECKPOINT_WORDS, known_variants, with_kinds
from modtf.analysis.learned import learned_by_variant, only_learned
from modtf.analysis.pairs import match_members, mean_ratios
from modtf.analysis.rows import IN, OUT, random_baseline
from modtf.analysis.trained import TrainedModels
from modtf.metrics import MEASURES
from modtf.pages.text import in_a_row, interval_words, listing, plural, short_number
from modtf.results.schema import KIND
from modtf.tasks.families import FAMILIES

ALIGNMENT, MOST = "alignment", 3  # sentences
#: the largest alignment, as a share of that of random routing -> what is said of a variant
DEGREES = {0.25: "specialises", 0.75: "specialises in part", 1.0: "hardly specialises"}


def findings(study: TrainedModels) -> list[str]:
    """Return the verdict: what was not trained enough, the ratio of losses, and the specialisation.

    Example:
        >>> findings(study)  # doctest: +SKIP
        ['`gt_modular` reaches 0.27 times the loss of `monolithic` in distribution (95% CI 0.24 to 0.31, ...']
    """
    untrained = study.learned[~study.learned["learned"]]
    if len(untrained) == len(study.learned):
        return [_untrained_words("Nothing was trained", untrained, study)]
    some = f"{len(untrained)} of {len(study.learned)} pairs of task type and R were not trained"
    before = [_untrained_words(some, untrained, study)] if len(untrained) else []
    first, reference, last = compared_variants(study)
    texts = [
        _ratio_words(study, last, first, IN),
        _alignment_words(study, reference) if reference in _known(study) else "",
        _ratio_words(study, last, first, OUT),
        _ratio_words(study, reference, first, IN),
        *(_alignment_words(study, name) for name in _known(study) if name not in (first, last)),
    ]
    shown = [text for text in dict.fromkeys(texts) if text][:MOST]
    return before + shown or [
        f"Only {listing(study.results['variant'])} was run, so there is nothing to compare."
    ]


def _untrained_words(some: str, untrained: pd.DataFrame, study: TrainedModels) -> str:
    """Return the sentence on what has not learned; `some` says how much that is."""
    left = 1 - untrained["share"].dropna()
    if left.empty:
        return f"{some} well enough to judge: all models diverged."
    steps = sorted({cell.definition.protocol.training.steps for cell in study.cells if cell.is_finished})
    after = f"after {' or '.join(map('{:,}'.format, steps))} steps " if 0 < len(steps) < 3 else ""
    ends = list(dict.fromkeys(f"{one:.0%}" for one in (left.min(), left.max())))
    return (
        f"{some} enough to judge: {after}the best variant has {' to '.join(ends)} of the loss or "
        "error of the best constant answer."
    )


def how_found(study: TrainedModels) -> str:
    """Return what the ratios and means in `findings` are over."""
    rows = study.results
    sizes = f"R = {listing(rows['num_rules'])} and width {listing(rows['width'])}"
    meant = CHECKPOINT_WORDS[study.checkpoint]
    first, _, last = compared_variants(study)
    number = rows["variant"].nunique()
    chosen = (
        f"`{first}` and `{last}` have the highest and the lowest loss of {number} variants. They were chosen "
    )
    chosen += "after the numbers were seen, so that their ratio is too far from 1. "
    return chosen * (len(_known(study)) < 2 < number) + (
        "A ratio is the geometric mean over models of the same task and seed; below 1, the first has less. "
        f"Means are over {sizes}, within each task first. Checkpoint {study.checkpoint}: {meant}."
    )


def compared_variants(study: TrainedModels) -> tuple[str, str, str]:
    """Return the least informed variant of a study, the reference of its family and the most informed one.

    Where fewer than two of the family's own variants were run: those with the highest and the lowest loss.
    """
    variants = list(study.results["variant"].drop_duplicates().sort_values())
    known = _known(study)
    reference = FAMILIES[study.results["arch"].iloc[0]].reference
    first, last = (known[0], known[-1]) if len(known) > 1 else _extremes(study)
    return first, reference if reference in variants else last, last


def _known(study: TrainedModels) -> list[str]:
    variants = set(study.results["variant"].unique())
    return [name for name in known_variants(study.results["arch"].unique()) if name in variants]


def _extremes(study: TrainedModels) -> tuple[str, str]:
    """Return the variants with the highest and the lowest loss in distribution, compared within tasks."""
    rows = study.performance[(study.performance["distribution"] == IN) & (study.performance["value"] > 0)]
    logs = np.log(rows["value"])
    same = rows.groupby([*KIND, "num_rules", "width", UNIT], observed=True)
    means = (
        (logs - logs.groupby(same.ngroup()).transform("mean")).groupby(rows["variant"], observed=True).mean()
    )
    name = str(study.results["variant"].iloc[0])
    return (name, name) if means.dropna().empty else (str(means.idxmax()), str(means.idxmin()))


def _ratio_words(study: TrainedModels, first: str, second: str, where: str) -> str:
    if first == second:
        return ""
    rows = only_learned(study.performance[study.performance["distribution"] == where], study)
    ratios = mean_ratios(with_kinds(match_members(rows, first, second)), ["kind"], study.level)
    if ratios.empty:
        return ""
    left = int(ratios["num_missing"].sum())
    zero = f"; left out: {plural(left, 'pair')} with a loss or error of 0, or with a model that diverged"
    lost = zero if left else ""
    ratios = ratios[np.isfinite(ratios["mean"])]
    if ratios.empty:
        return f"`{first}` and `{second}` have no ratio {where}{lost}."
    judged = " or ".join(rows["measure"].drop_duplicates().astype(str).sort_values()).replace("_", " ")
    text = f"`{first}` reaches {_spread(ratios, study.level, '{} times')} the {judged} of `{second}` {where}"
    lower = int((ratios["mean"] < 1).sum())
    more = f"; it is lower in {lower} of {plural(len(ratios), 'task type')}" if len(ratios) > 1 else ""
    return _closed(text, ratios, study.level, more + lost)


def _alignment_words(study: TrainedModels, variant: str) -> str:
    rows = study.results
    rows = rows[(rows["measure"] == ALIGNMENT) & (rows["variant"] == variant) & (rows["num_modules"] > 1)]
    rows = rows[rows["place"].astype(str) == ""]  # several routed layers have several answers
    rows = only_learned(rows, study)
    if rows.empty:
        return ""
    learned = learned_by_variant(study)
    learned = learned[(learned["variant"] == variant) & learned["is_known"]]
    if len(learned) and not learned["learned"].any():
        return f"`{variant}` has not learned, so its {ALIGNMENT} means nothing."
    did = "learned, and " if len(learned) and learned["learned"].all() else ""
    chance = random_baseline(rows["num_rules"], list(rows["num_modules"]))
    chance = chance[chance["measure"] == ALIGNMENT].drop(columns=["measure", "variant"])
    rows = rows.merge(chance.rename(columns={"value": "chance"}), on=["num_rules", "num_modules"])
    rows["chance"] = rows["chance"].where(np.isfinite(rows["value"]))  # of the same models
    means = intervals(rows, ["kind"], level=study.level)
    means["chance"] = intervals(rows, ["kind"], "chance", study.level)["mean"]
    left = int(means["num_missing"].sum())
    means = means[np.isfinite(means["mean"])]
    if means.empty:
        return ""
    low, high = MEASURES[ALIGNMENT].range
    means = means.assign(low=means["low"].clip(low, high), high=means["high"].clip(low, high))
    degrees = [_degree(mean / least) for mean, least in zip(means["mean"], means["chance"], strict=True)]
    counts = [f"{words} in {number}" for words, number in pd.Series(degrees).value_counts(sort=False).items()]
    several = f"{in_a_row(counts)} of {plural(len(means), 'task type')}"
    degree = degrees[0] if len(means) == 1 else several
    low, high = means["chance"].min(), means["chance"].max()
    random = f"{low:.3g}" if high - low < 0.005 else f"between {low:.3g} and {high:.3g}"
    text = f"`{variant}` {did}{degree}: alignment {_spread(means, study.level, '{}')}"
    lost = f"; left out: {plural(left, 'model')} that diverged" if left else ""
    return _closed(text, means, study.level, f"; random routing has {random}{lost}")


def _degree(share: float) -> str:
    return next((words for most, words in DEGREES.items() if share <= most), "does not specialise")


def _spread(means: pd.DataFrame, level: float, form: str) -> str:
    """Return the mean of the only task type, or the smallest and the largest, each with its interval."""
    if len(set(means["mean"].map(short_number))) == 1:
        return form.format(short_number(means["mean"].iloc[0]))
    ends = [means.loc[means["mean"].idxmin()], means.loc[means["mean"].idxmax()]]
    low, high = (
        f"{form.format(short_number(end['mean']))} {interval_words(end, level, end['kind'])}" for end in ends
    )
    return f"between {low} and {high}"


def _closed(text: str, means: pd.DataFrame, level: float, more: str) -> str:
    """Return a sentence with the interval of the only task type, and more words."""
    interval = f" {interval_words(means.iloc[0], level)}" if len(means) == 1 else ""
    return f"{text}{interval}{more}."
