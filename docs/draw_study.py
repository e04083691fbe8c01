"""Draws the study of docs/study.md from its results alone: `python docs/draw_study.py`.

Reads docs/study/first.zip, writes docs/images/study_*.png, and prints the tables of docs/study.md.
"""

import re
from pathlib import Path

import pandas as pd

import modtf
from modtf.analysis.claims.judge import CONTRADICTED, SUPPORTED, UNDECIDED
from modtf.analysis.claims.text import decisive
from modtf.analysis.figures.save import png_of
from modtf.analysis.labels import with_kinds

HERE = Path(__file__).parent
IMAGES = HERE / "images"
RESULTS = HERE / "study" / "first.zip"
PICTURES = (
    "ranking",
    "paired_comparisons",
    "performance_vs_num_rules",
    "collapse_and_specialisation_vs_num_rules",
)
LOUD = {SUPPORTED: "**supported**", CONTRADICTED: "**contradicted**"}


def verdicts(study: modtf.Study) -> str:
    """A row per claim, a column per kind, in Markdown; behind "undecided" the tasks that would decide it."""
    judged = decisive(study.claims())
    judged["word"] = [_word(row) for row in judged.itertuples()]
    kinds = list(judged["kind"].unique())
    rows = [["claim of the paper", *kinds], ["---"] * (1 + len(kinds))]
    for text, claim in judged.groupby("text", sort=False):
        words = claim.set_index("kind")["word"]
        rows.append([str(text), *(words.get(kind, "") for kind in kinds)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _word(row: pd.Series) -> str:
    needed = re.search(r"(about|more than) ([\d,]+) tasks", row.why)
    if row.verdict == UNDECIDED and needed:
        return f"{row.verdict}, {'> ' if needed[1] == 'more than' else ''}{needed[2]}"
    return LOUD.get(row.verdict, row.verdict)


def costs(study: modtf.Study) -> str:
    """What was run of each kind, and what one more task of it costs, in Markdown."""
    seconds = with_kinds(study.results[study.results["measure"] == "seconds"])
    rows = ["| kind | R | cells | models | core-hours | of one task |", "|---|---|---:|---:|---:|---:|"]
    for kind, part in seconds.groupby("kind", observed=True, sort=False):
        rules = ", ".join(map(str, sorted(part["num_rules"].unique())))
        cells = len(part.drop_duplicates(["num_rules", "variant"]))
        hours = part["value"].sum() / 3600
        of_one = hours / part["data_seed"].nunique()
        rows.append(f"| {kind} | {rules} | {cells} | {len(part)} | {hours:.1f} | {of_one:.2f} |")
    return "\n".join(rows)


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Writes the pictures of the page."""
    paths = [folder / f"study_{name}.png" for name in PICTURES]
    for name, path in zip(PICTURES, paths, strict=True):
        path.write_bytes(png_of(study.figure(name)[-1]))  # of several the one by kind
    return paths


if __name__ == "__main__":
    first = modtf.Study.read(RESULTS)
    draw(first)
    print(f"{costs(first)}\n\n{verdicts(first)}")
