"""The sections of a study's report: what was found, what was run and how, claims, measures."""

import math
from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from modtf.analysis.claims.judge import learning_words, weights_words
from modtf.analysis.claims.registry import CLAIMS
from modtf.analysis.claims.words import LEGEND, decisive, evidence_words, in_words
from modtf.analysis.contents import contents, how_corrected, how_measured, how_trained
from modtf.analysis.intervals import MIN_TASKS
from modtf.analysis.labels import kind_label
from modtf.analysis.report.findings import findings, how_found
from modtf.analysis.report.questions import figure_title
from modtf.analysis.rows import IN, performance_rows
from modtf.analysis.table import table_cells, table_note
from modtf.analysis.trained import TrainedModels
from modtf.pages.page import Claims, Fold, Section, Table, Text, anchor
from modtf.pages.text import listing, plural

PAIRED = ["first", "second", "kind", "num_rules", "width", "distribution", "advantage", "advantage_low"]
PAIRED += ["advantage_high", "effect_size", "wins", "num_tasks", "num_models", "num_missing"]


def findings_section(study: TrainedModels, figures: Sequence[Section]) -> Section:
    """Return the first section: sentences, the table of the variants, and the figures that carry them."""
    lost, missing = contents(study.results)["diverged"].sum(), len(study.missing) if study.cells else 0
    warnings = [f"{plural(lost, 'model')} diverged and are not in any mean."] if lost else []
    warnings += [f"{plural(missing, 'requested cell')} missing; see 'What is missing'."] if missing else []
    tables = [parts for kind in study.kinds for parts in _variants_table(study, kind)]
    folded = [Fold("The tables of the other task types", tables[3:])] if len(study.kinds) > 1 else []
    how = [how_found(study), *(f"{line}." for line in how_trained(study.cells))]
    texts = [Text(text, small=True) for text in how]
    return Section("What was found", (), warnings, [*tables[:3], *folded, *texts], findings(study), figures)


def ranked_cells(frame: pd.DataFrame, level: float) -> tuple[list[str], list[list[str]]]:
    """Return `table_cells`, the best variant in distribution first; random routing is last."""
    header, body = table_cells(frame, level)
    rows = performance_rows(frame)
    means = rows[rows["distribution"] == IN].groupby("variant", observed=True)["value"].mean().to_dict()
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
