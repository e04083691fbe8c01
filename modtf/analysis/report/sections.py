"""The sections of a study's report: what was found, what was run and how, claims, measures."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.claims.judge import (
    LEGEND,
    decisive,
    evidence_words,
    in_words,
    learning_words,
    weights_words,
)
from modtf.analysis.claims.registry import CLAIMS
from modtf.analysis.figures.registry import DESCRIPTIONS, QUESTIONS
from modtf.analysis.intervals import MIN_TASKS, UNIT, data_seed_means, intervals
from modtf.analysis.labels import CHECKPOINT_WORDS, kind_label, known_variants, with_kinds
from modtf.analysis.learned import learned_by_variant, only_learned
from modtf.analysis.pairs import match_members, mean_ratios
from modtf.analysis.rows import IN, OUT, performance_rows, random_baseline
from modtf.analysis.table import table_cells, table_note
from modtf.analysis.trained import TrainedModels, contents, how_corrected, how_measured, how_trained
from modtf.metrics import MEASURES
from modtf.pages.page import Claims, Fold, Links, Section, Table, Text, anchor
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
    run = study.results["variant"].drop_duplicates()
    one = "Only {} was run, so there is nothing to compare."
    several = "{} were run. No finding compares them; all numbers are in the tables."
    return before + shown or [(one if len(run) == 1 else several).format(listing(run))]


def _untrained_words(some: str, untrained: pd.DataFrame, study: TrainedModels) -> str:
    """Return the sentence on what has not learned; `some` says how much that is."""
    left = 1 - untrained["share"].dropna()
    if left.empty:
        return f"{some} well enough to judge: all models diverged."
    steps = sorted(study.results["steps"].unique())
    unit = "step" if steps == [1] else "steps"
    after = f"after {' or '.join(map('{:,}'.format, steps))} {unit} " if 0 < len(steps) < 3 else ""
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


WORDS = {
    "task": "A set of rules with their coefficients, drawn from a data seed. Cells of different R, task type "
    "and width share a data seed's random numbers: they add no tasks.",
    "task type": "A family of tasks with its setting and options, for example MLP regression.",
    "rule": "The function that labels a token. A task has R rules.",
    "module": "A part of a network that computes answers for some tokens (an expert). A model has M modules.",
    "variant": "A way to choose modules: `monolithic` (one module), `modular` (learned from input and rule), "
    "`modular_op` (learned from the rule alone), `gt_modular` (the rule's own module), or a router.",
    "cell": "One task type, R, width and variant. Its models differ in task and seed.",
    "in distribution": "Test data from the distribution of the training data.",
    "out of distribution": "Test data from another distribution, for example with larger inputs "
    "or more tokens. The note below the table names it.",
    "CI": "Confidence interval: Student's t over tasks. All models that share a task are averaged first. "
    "With one task there is none. docs/statistics.md shows how often such intervals are right.",
    "alignment": "Distance of the activation matrix, p(module | rule), from the nearest one-to-one "
    "assignment of modules to rules: 0 is perfect. A variant specialises if its alignment is at most a "
    "quarter of that of random routing, in part up to three quarters, hardly above.",
    "random routing": "Every module with the same probability: a baseline, not a trained model.",
    "collapse": "Some modules receive much less than an equal share of the tokens.",
    "checkpoint": "The weights that a number belongs to: "
    + "; ".join(f"{name}: {meant}" for name, meant in CHECKPOINT_WORDS.items())
    + ".",
    "protocol": "How a cell was trained and evaluated: eight digits of a hash of all settings, and the "
    "learning rate after @.",
}


#: headings that the names of figures do not give
HEADINGS = {
    "performance_vs_num_rules": "Performance by variant and number of rules",  # bars if there is one
    "collapse_and_specialisation_bars": "Collapse and specialisation by variant",
    "corruptions_examples": "Example images under corruptions",
    "questions_examples": "Example images with questions",
}


def question_sections(drawn: Mapping[str, Sequence[Any]]) -> tuple[list[Section], list[Section]]:
    """Return the figures that stand at the top, and a section for each question and for all other figures.

    Args:
        drawn: the images of each figure, by its name.
    """
    top: list[Section] = []
    questions: list[Section] = []
    for place, question in enumerate(QUESTIONS):
        figures = {name: DESCRIPTIONS[name][1] for name in drawn if DESCRIPTIONS[name][0] == question}
        parts = [Section(figure_title(name), [words] * bool(words), content=drawn[name])
                 for name, words in figures.items()]  # fmt: skip
        above: list[Links] = []
        if place < 1 and parts:
            first, *rest = parts
            picture, *more = first.content
            top.append(Section(first.title, first.texts, content=[picture]))
            above = [Links("At the top of this page:", [(f"#{first.anchor}", first.title)])]
            parts = [Section(f"{first.title}, in detail", first.texts, content=more)] * bool(more) + rest
        if parts or above:
            questions.append(Section(question, content=above, parts=parts))
    return top, questions


def figure_title(name: str) -> str:
    """Return the heading of a registered figure."""
    if name in HEADINGS:
        return HEADINGS[name]
    words = name.replace("_", " ").replace(" vs ", " against ").capitalize()
    return words.replace("num rules", "number of rules").replace("seq len", "sequence length")


PAIRED = ["first", "second", "kind", "num_rules", "width", "distribution", "advantage", "advantage_low"]
PAIRED += ["advantage_high", "effect_size", "wins", "num_tasks", "num_models", "num_missing"]


def findings_section(study: TrainedModels, figures: Sequence[Section]) -> Section:
    """Return the first section: sentences, the table of the variants, and the figures that carry them."""
    lost, missing = contents(study.results)["diverged"].sum(), len(study.missing) if study.cells else 0
    warnings = [f"{plural(lost, 'model')} diverged and are not in any mean."] if lost else []
    warnings += [f"{plural(missing, 'requested cell')} missing; see 'What is missing'."] if missing else []
    tables = [parts for kind in study.kinds for parts in _variants_table(study, kind)]
    folded = [Fold("The tables of the other task types", tables[3:])] if len(study.kinds) > 1 else []
    how = [how_found(study), *(f"{line}." for line in how_trained(study))]
    texts = [Text(text, small=True) for text in how]
    return Section("What was found", (), warnings, [*tables[:3], *folded, *texts], findings(study), figures)


def ranked_cells(frame: pd.DataFrame, level: float) -> tuple[list[str], list[list[str]]]:
    """Return `table_cells`, the best variant in distribution first; random routing is last."""
    header, body = table_cells(frame, level)
    rows = performance_rows(frame)
    sample = data_seed_means(rows[rows["distribution"] == IN], ["variant"])  # without models that diverged
    means = sample.groupby("variant", observed=True)["value"].mean().to_dict()
    return header, sorted(body, key=lambda row: means.get(row[0], math.inf))


def _variants_table(study: TrainedModels, kind: tuple[str, ...]) -> list[Any]:
    """Return the table that `modtf run` prints, of a task type at one R and width, with its texts.

    These are the middle ones of those at which most variants were run."""
    rows = study.part(*kind).results
    for name in ("num_rules", "width"):
        variants = rows.groupby(name)["variant"].nunique()
        values = sorted(variants.index[variants == variants.max()])
        rows = rows[rows[name] == values[len(values) // 2]]
    header, body = ranked_cells(rows, study.level)
    head = f"{kind_label(*kind)}, R = {rows['num_rules'].iloc[0]}, width {rows['width'].iloc[0]}, best first:"
    note = table_note(rows, study.level)
    return [
        Text(head),
        Table(pd.DataFrame(body, columns=header), "tables/summary.csv"),
        Text(note, small=True),
    ]


def contents_section(study: TrainedModels) -> Section:
    """Return the section on the number of models, and on how the checkpoint was measured."""
    kinds = contents(study.results)
    text = f"{plural(kinds['models'].sum(), 'trained model')} in {plural(kinds['cells'].sum(), 'cell')}."
    finished = [cell for cell in study.cells if cell.is_finished]
    measured = how_measured(finished, study.checkpoint) or [f"checkpoint {study.checkpoint}"]
    lines = [f"{'. '.join(measured)}.", *(f"{line}." for line in how_corrected(finished))]
    return Section("What was run", [text, *lines], content=[Table(kinds)])


def protocols_section(study: TrainedModels) -> Section:
    """Return the section on how the cells of every protocol were trained and evaluated."""
    rows, versions = {}, dict[str, set[str]]()
    for cell in study.cells:
        if cell.is_finished:
            versions.setdefault(cell.protocol, set()).add(str(cell.config.get("version", "unknown")))
            words = [f"version {listing(sorted(versions[cell.protocol]))}"]
            for part, settings in cell.definition.protocol.to_dict().items():
                shown = ", ".join(f"{k} {v}" for k, v in settings.items() if v is not None)
                words.append(f"{part}: {shown}")
            rows[cell.protocol] = "; ".join(words)
    return Section("How it was run", content=[Table(pd.DataFrame(rows.items(), columns=["protocol", "how"]))])


def missing_section(study: TrainedModels) -> Section:
    """Return the section on the cells that are missing."""
    title, missing = "What is missing", study.missing
    if not study.cells:
        return Section(title, ["The results were given without their folders, so missing cells are unknown."])
    if missing.empty:
        return Section(title, ["All requested cells are present."])
    counts = ", ".join(f"{n} {status}" for status, n in missing["status"].value_counts().items())
    text = f"Requested cells that are missing: {counts}. Rerun the command that started them to resume."
    return Section(title, (), [text], [Table(missing, "tables/missing.csv")])


def undrawn_section(undrawn: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the section with one line on the figures that were not drawn, if there are any."""
    reasons = "; ".join(f"{figure_title(name)} ({reason})" for name, reason in undrawn)
    return [Section("What was not drawn", [f"Not drawn: {reasons}."])] if undrawn else []


def claims_section(study: TrainedModels, judged: pd.DataFrame, drawn: Collection[str]) -> Section:
    """Return the section with the verdicts on all claims by task type, and the deciding numbers.

    Args:
        judged: what `study.claims()` returns.
        drawn: the names of the figures on the page.
    """
    text = (
        "A task type supports a claim if the interval of every number behind the claim lies on the claimed "
        "side of its border. It contradicts the claim if an interval lies on the other side, after Holm's "
        f"correction for the number of looks. Otherwise it is undecided; with fewer than {MIN_TASKS} tasks "
        f"there are not enough runs. At the checkpoints: {LEGEND}"
    )
    details = decisive(judged)
    kinds = list(dict.fromkeys(details["kind"]))
    lines = []
    for claim in in_words(judged).itertuples():
        own = details[details["claim"] == claim.claim]
        evidence = [(r["kind"], r["verdict"], evidence_words(r, study.level)) for _, r in own.iterrows()]
        title = figure_title(claim.figure)
        lines.append(
            {
                "text": claim.text,
                "words": claim.words,
                "statistic": CLAIMS[claim.claim].statistic,
                "figure": {"title": title, "anchor": anchor(title)} if claim.figure in drawn else None,
                "verdicts": [verdict for _, verdict, _ in evidence],
                "evidence": evidence,
            }
        )
    remarks = [*weights_words(study), *learning_words(study)]
    return Section("Claims of the paper", [text, *remarks], content=[Claims(kinds, lines)])


def paired_section(paired: pd.DataFrame) -> Section:
    """Return the section with the paired comparisons, cell by cell."""
    title = "Paired comparisons, cell by cell"
    if paired.empty:
        return Section(title, warnings=["No variant and the next less informed one share a task and seed."])
    text = (
        "Two variants on the same task and seed. advantage: the share by which the loss or error of the "
        "first is below that of the second. effect size: the mean gain divided by its standard deviation "
        "over pairs. wins: the share of pairs in which the first is better."
    )
    table = Table(paired[PAIRED], "tables/paired_comparisons_by_cell.csv")
    return Section(title, [text], content=[Fold("Show the table", [table])])
