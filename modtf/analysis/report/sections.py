"""What the page says besides figures: what was run and how, what is missing, claims, measures."""

from collections.abc import Sequence

import pandas as pd

from modtf.analysis.claims.judge import decisive, evidence_words, in_words
from modtf.analysis.claims.registry import CLAIMS
from modtf.analysis.contents import contents, how_measured
from modtf.analysis.intervals import MIN_TASKS
from modtf.analysis.labels import CHECKPOINT_WORDS
from modtf.analysis.report.page import Section, anchor, figure_title, table
from modtf.analysis.text import plural
from modtf.analysis.trained import TrainedModels
from modtf.metrics import GROUPS, measures

PAIRED = ["first", "second", "kind", "num_rules", "width", "distribution", "advantage", "advantage_low"]
PAIRED += ["advantage_high", "effect_size", "wins", "num_tasks", "num_models", "num_missing"]


def contents_section(study: TrainedModels) -> Section:
    """How many models there are, and the words that all that follows uses."""
    kinds = contents(study.results)
    text = (
        f"{plural(kinds['models'].sum(), 'trained model')} in {plural(kinds['cells'].sum(), 'cell')}. A kind "
        "is a family of tasks, with its options and what is predicted. A cell is one kind, number of rules "
        "R, width and variant; its models differ in task and seed. A task is a data seed: cells of different "
        "R, kind and width share its random numbers, so they are no more tasks."
    )
    finished = [cell for cell in study.cells if cell.is_finished]
    measured = how_measured(finished, study.checkpoint) or [f"checkpoint {study.checkpoint}"]
    checkpoints = "; ".join(f"{name}: {meant}" for name, meant in CHECKPOINT_WORDS.items())
    words = (
        f"A checkpoint says which weights of a training numbers are of; {checkpoints}. Here: "
        f"{'; '.join(measured)}. A protocol is how cells were trained and evaluated: eight digits of a hash "
        "of all its settings, and behind @ the learning rate. The settings stand below, in 'How it was run'."
    )
    intervals = (
        f"Intervals: {study.level:.0%}, Student's t over tasks; all models that share a task are averaged "
        "first. With one task there is none. docs/statistics.md shows how often such intervals are right."
    )
    lost, missing = kinds["diverged"].sum(), len(study.missing) if study.cells else 0
    warnings = [f"{plural(lost, 'model')} diverged; no mean holds them."] if lost else []
    warnings += [f"{plural(missing, 'cell')} missing; see 'What is missing'."] if missing else []
    return Section("What was run", [text, words, intervals], warnings, [table(kinds)])


def protocols_section(study: TrainedModels) -> Section:
    """How the cells of every protocol were trained and evaluated."""
    rows = {}
    for cell in study.cells:
        if cell.is_finished and cell.protocol not in rows:
            said = [f"version {cell.config['version']}"] if cell.config.get("version") else []
            for part, settings in cell.definition.protocol.to_dict().items():
                shown = ", ".join(f"{k} {v}" for k, v in settings.items() if v is not None)
                said.append(f"{part}: {shown}")
            rows[cell.protocol] = "; ".join(said)
    return Section("How it was run", content=[table(pd.DataFrame(rows.items(), columns=["protocol", "how"]))])


def missing_section(study: TrainedModels, undrawn: Sequence[tuple[str, str]]) -> Section:
    """Cells that are not there, and figures that could not be drawn."""
    warnings = [f"Not drawn: {name}, because {reason}." for name, reason in undrawn]
    title, missing = "What is missing", study.missing
    if not study.cells:
        return Section(title, ["The results come without their folders."], warnings)
    if missing.empty:
        return Section(title, ["Every cell that was asked for is there."], warnings)
    counts = ", ".join(f"{n} {status}" for status, n in missing["status"].value_counts().items())
    warnings.insert(
        0, f"Of the cells that were asked for: {counts}. The command that began them goes on with them."
    )
    return Section(title, (), warnings, [table(missing, "tables/missing.csv")])


def claims_section(study: TrainedModels, judged: pd.DataFrame) -> Section:
    """The verdict on every claim in every kind, and the number that decided it."""
    text = (
        "A kind of task supports a claim if the interval of every number it stands on lies where the claim "
        "says. It contradicts it if one lies on the other side, after Holm's correction for the number of "
        f"looks. Otherwise it is undecided; with fewer than {MIN_TASKS} tasks there are not enough runs."
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
                "figure": {"title": title, "anchor": anchor(title)},
                "verdicts": [verdict for _, verdict, _ in evidence],
                "evidence": evidence,
            }
        )
    return Section("Claims of the paper", [text], claims=lines, kinds=kinds)


def paired_section(paired: pd.DataFrame) -> Section:
    """The paired comparisons, cell by cell."""
    title = "Paired comparisons, cell by cell"
    if paired.empty:
        return Section(title, warnings=["No variant and the next less informed one share a task and seed."])
    text = (
        "Two variants on the same task and seed. advantage: by which share the first's loss or error is "
        "below the second's; effect size: mean gain over its standard deviation between pairs; wins: share "
        "of pairs won."
    )
    return Section(title, [text], content=[table(paired[PAIRED], "tables/paired_comparisons_by_cell.csv")])


def measures_section(groups: Sequence[str] = GROUPS, texts: Sequence[str] = ()) -> Section:
    """What every measure of some groups means."""
    rows = [
        {
            "measure": m.name,
            "what it says": m.description,
            "range": f"{m.range[0]:g} to {m.range[1]:g}",
            "perfect": "-" if m.perfect is None else f"{m.perfect:g}",
            "better": {True: "smaller", False: "larger", None: "-"}[m.smaller_is_better],
        }
        for m in measures()
        if m.group in groups
    ]
    return Section("Measures", texts, content=[table(pd.DataFrame(rows))])
