"""Print the tables of docs/study.md on the published variants under a cosine schedule.

    python docs/scripts/write_search.py studies/first_cosine_tuning \\
        docs/study/first_cosine_tuning.csv.gz
    python docs/scripts/draw_study_cosine.py

It reads docs/study/first_cosine.zip, first_cosine_tuning.csv.gz, and for the constant rate first.zip.
"""

from pathlib import Path

import pandas as pd
from draw_cosine import rates, titled, trial_losses
from sources import study_file

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.table import table_cells
from modtf.experiments.modarch.given import times
from modtf.pages.text import markdown_table

DOCS = Path(__file__).parents[1]
STUDIES = DOCS / "study"
first = study_file("first")
PAIRS = (
    ("modular", "monolithic"),
    ("modular_op", "modular"),
    ("gt_modular", "modular"),
    ("gt_modular", "modular_op"),
)


def read() -> modtf.Study:
    """Read all reported models."""
    return modtf.Study.read(STUDIES / "first_cosine.zip")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial, with its family and R."""
    table = STUDIES / "first_cosine_tuning.csv.gz"
    found = [
        trial_losses(table, first.SEARCHES[family].trials(first.variants(), chosen, num_rules)).assign(
            family=family, num_rules=num_rules
        )
        for (family, num_rules), chosen in first.RATES.items()
    ]
    return pd.concat(found)


def ratios(study: modtf.Study, constant: modtf.Study) -> str:
    """Return the loss of variants as a multiple of another's, under both schedules, in Markdown."""
    rows = []
    for part in study.by_kind:
        [same] = (each for each in constant.by_kind if each.kinds == part.kinds)
        for num_rules in sorted(part.performance["num_rules"].unique(), reverse=True):
            for first, second in PAIRS:
                cells = [
                    _ratio(each, int(num_rules), first, second, where)
                    for each in (same, part)
                    for where in (IN, OUT)
                ]
                label = kind_label(*part.kinds[0][:2])
                rows.append([label, str(num_rules), f"{first} / {second}", *cells])
    header = [f"{how}, {where.split()[0]}" for how in ("constant", "cosine") for where in (IN, OUT)]
    return markdown_table(["task type", "R", "variants", *header], rows, left=3)


def _ratio(part: modtf.Study, num_rules: int, first: str, second: str, where: str) -> str:
    rows = part.performance
    rows = rows[(rows["num_rules"] == num_rules) & (rows["distribution"] == where)]
    return times(rows[rows["variant"] == first], rows[rows["variant"] == second], part.level)


def measured(study: modtf.Study) -> list[str]:
    """Return performance and measures of every variant, a table per task type and R, in Markdown."""
    tables = []
    for part in study.by_kind:
        for num_rules, rows in part.results.groupby("num_rules", sort=False):
            header, cells = table_cells(rows, part.level)
            table = markdown_table(header[:-2], [row[:-2] for row in cells])
            tables.append(titled(part, f"R = {num_rules}, cosine schedule", table))
    return tables


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    constant = modtf.Study.read(STUDIES / "first.zip").of_families(["mlp", "rnn"])
    searches = [
        f"**{family.upper()}, R = {num_rules}**\n\n{rates(rows)}"
        for (family, num_rules), rows in tuned().groupby(["family", "num_rules"], sort=False)
    ]
    return {"study.md": [ratios(study, constant), *measured(study), *searches]}


if __name__ == "__main__":
    print("\n\n".join(texts(read())["study.md"]))
