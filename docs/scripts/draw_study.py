"""Draws the study of docs/study.md from its results alone: `python docs/scripts/draw_study.py`.

Reads docs/study/first.zip, writes docs/images/study_*.png, and prints the tables of docs/study.md.
"""

from pathlib import Path
from typing import Any

import modtf
from modtf.analysis import IN, OUT, against
from modtf.analysis.claims import CONTRADICTED, DEPENDS, INITIALS, SUPPORTED, UNDECIDED, decisive
from modtf.analysis.claims.evidence import MOST_TASKS
from modtf.analysis.contents import stands_on
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.labels import with_kinds
from modtf.analysis.text import markdown_table
from modtf.analysis.trained import CHOICES

DOCS = Path(__file__).parents[1]
IMAGES = DOCS / "images"
RESULTS = DOCS / "study" / "first.zip"
PICTURES = (
    "ranking",
    "paired_comparisons",
    "performance_vs_num_rules",
    "collapse_and_specialisation_vs_num_rules",
)
NUM_RULES = 8  # which all kinds were run with
INFORMED = ("modular_op", "gt_modular")
LOUD = {SUPPORTED: "**supported**", CONTRADICTED: "**contradicted**", DEPENDS: "depends"}


def read() -> modtf.Study:
    """All trained models of the study."""
    return modtf.Study.read(RESULTS)


def verdicts(study: modtf.Study) -> str:
    """A row per claim, a column per kind, in Markdown: the word, behind "undecided" the tasks that would
    decide it; the verdicts at all checkpoints; q."""
    judged = decisive(study.claims())
    judged["word"] = [_word(row) for row in judged.itertuples()]
    kinds = list(judged["kind"].unique())
    rows = []
    for text, claim in judged.groupby("text", sort=False):
        words = claim.set_index("kind")["word"]
        rows.append([str(text), *(words.get(kind, "") for kind in kinds)])
    return markdown_table(["claim of the paper", *kinds], rows, left=1 + len(kinds))


def _word(row: Any) -> str:
    word = LOUD.get(row.verdict, row.verdict)
    if row.verdict == UNDECIDED:
        word += f", > {MOST_TASKS}" if row.num_tasks_needed > MOST_TASKS else f", {row.num_tasks_needed:.0f}"
    return f"{word}; {''.join(INITIALS[getattr(row, f'verdict_{c}')] for c in CHOICES)}; {row.q:.3f}"


def costs(study: modtf.Study) -> str:
    """What was run of each kind, and what one more task of it costs, in Markdown."""
    seconds = with_kinds(study.results[study.results["measure"] == "seconds"])
    rows = []
    for kind, part in seconds.groupby("kind", observed=True):
        rules = ", ".join(map(str, sorted(part["num_rules"].unique())))
        cells = len(part.drop_duplicates(["num_rules", "variant"]))
        hours = part["value"].sum() / 3600
        of_one = hours / part["data_seed"].nunique()
        rows.append([kind, rules, cells, len(part), f"{hours:.1f}", f"{of_one:.2f}"])
    return markdown_table(["kind", "R", "cells", "models", "core-hours", "of one task"], rows, left=2)


def savings(study: modtf.Study) -> str:
    """Which share of `modular`'s loss or error the informed variants save at one R, in Markdown."""
    table = against(study.results, level=study.level)
    table = table[(table["num_rules"] == NUM_RULES) & table["distribution"].isin([IN, OUT])]
    table = table.set_index(["kind", "variant", "distribution"])
    columns = [(variant, where) for variant in INFORMED for where in (IN, OUT)]
    rows = []
    for kind in table.index.unique("kind"):
        found = (table.loc[(kind, *column)] for column in columns)
        rows.append([kind, *(f"{r.gain:.0%} ({round(100 * r.low)} to {round(100 * r.high)})" for r in found)])
    return markdown_table(["kind", *(f"{variant}, {where}" for variant, where in columns)], rows)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """The tables of every page."""
    return {
        "study.md": [
            costs(study),
            *(stands_on(study.cells, study.checkpoint, made(study)) for made in (verdicts, savings)),
        ]
    }


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Writes the pictures of the pages."""
    # of several the one by kind
    return write_pngs({f"study_{name}": study.figure(name)[-1] for name in PICTURES}, folder)


if __name__ == "__main__":
    first = read()
    draw(first)
    for page, tables in texts(first).items():
        print(f"{page}\n\n" + "\n\n".join(tables))
