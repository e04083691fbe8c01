"""The report as one HTML page that needs nothing else, figures and style stand inside it; and what it says
besides figures: what was run and how, what is missing, claims, measures."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from modtf.analysis.claims.registry import CLAIMS
from modtf.analysis.claims.words import LEGEND, decisive, evidence_words, in_words
from modtf.analysis.contents import contents, how_measured
from modtf.analysis.intervals import MIN_TASKS
from modtf.analysis.labels import CHECKPOINT_WORDS
from modtf.analysis.text import plural
from modtf.analysis.trained import TrainedModels
from modtf.metrics import GROUPS, MEASURES

MAX_ROWS = 60  # of a table on the page; the CSV file has all
PAIRED = ["first", "second", "kind", "num_rules", "width", "distribution", "advantage", "advantage_low"]
PAIRED += ["advantage_high", "effect_size", "wins", "num_tasks", "num_models", "num_missing"]


def table(frame: pd.DataFrame, file: str = "") -> str:
    """Markup of a table; a long one is cut, and says so. `file`, beside the page, has all of it."""
    shown = frame.head(MAX_ROWS).rename(columns=lambda name: str(name).replace("_", " "))
    with pd.option_context("display.max_colwidth", None):
        html = shown.to_html(index=False, border=0, justify="left", na_rep="", float_format="{:.4g}".format)
    below = [f"{len(shown)} of {len(frame)} rows are shown."] * (len(frame) > MAX_ROWS) + [file] * bool(file)
    notes = "\n".join(f'<p class="small">{escape(text)}</p>' for text in below)
    return f'<div class="scroll">{html}</div>\n{notes}'


def shown(picture: Any, png: bytes, files: str) -> str:
    """Markup of a `Picture`, as wide as it was drawn unless the window is narrower; `files` are beside it."""
    width, data = 96 * picture.figure.get_size_inches()[0], base64.b64encode(png).decode()
    said = escape(f"{picture.title}. {picture.note}")
    return (
        f'<figure>\n<img src="data:image/png;base64,{data}" alt="{said}" style="width:{width:.0f}px">\n'
        f"<figcaption>{escape(files)}</figcaption>\n</figure>"
    )


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    title: str
    texts: Sequence[str] = ()
    warnings: Sequence[str] = ()
    content: Sequence[str] = ()  # markup of tables and pictures
    claims: Sequence[dict[str, Any]] = ()  # see `claims_section`
    kinds: Sequence[str] = ()  # the columns of the claims

    @property
    def anchor(self) -> str:
        return anchor(self.title)


def anchor(title: str) -> str:
    """Return the link target of a section."""
    return "".join(c if c.isalnum() else "-" for c in title.lower())


def figure_title(name: str) -> str:
    """Return the heading of a registered figure."""
    words = name.replace("_", " ").replace(" vs ", " against ").capitalize()
    return words.replace("num rules", "number of rules").replace("seq len", "sequence length")


def render(title: str, sections: Sequence[Section]) -> str:
    """Render the page: everything in the sections is shown as text, except `content`."""
    loader = PackageLoader("modtf.analysis.report", "")
    clean: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    template = Environment(loader=loader, autoescape=True, **clean).get_template("page.html")
    return template.render(title=title, sections=sections)


def contents_section(study: TrainedModels) -> Section:
    """Return the section on the number of models, and on the words used below."""
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
    """Return the section on how the cells of every protocol were trained and evaluated."""
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
    """Return the section with the verdicts on all claims by task type, and the deciding numbers."""
    text = (
        "A kind of task supports a claim if the interval of every number it stands on lies where the claim "
        "says. It contradicts it if one lies on the other side, after Holm's correction for the number of "
        f"looks. Otherwise it is undecided; with fewer than {MIN_TASKS} tasks there are not enough runs. "
        f"At the checkpoints: {LEGEND}"
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
    """Return the section with the paired comparisons, cell by cell."""
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
    """Return the section that explains every measure of some groups."""
    rows = [
        {
            "measure": m.name,
            "what it says": m.description,
            "range": f"{m.range[0]:g} to {m.range[1]:g}",
            "perfect": "-" if m.perfect is None else f"{m.perfect:g}",
            "better": {True: "smaller", False: "larger", None: "-"}[m.smaller_is_better],
        }
        for m in MEASURES.values()
        if m.group in groups
    ]
    return Section("Measures", texts, content=[table(pd.DataFrame(rows))])
