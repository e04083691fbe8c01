"""Make the tables of docs/study.md at constant rates."""

from functools import partial
from typing import Any

import pandas as pd
from sources import archive, stands_on

import modtf
from modtf.analysis import IN, OUT, against
from modtf.analysis.claims import (
    CONTRADICTED,
    DEPENDS,
    INITIALS,
    NOT_ENOUGH,
    SUPPORTED,
    UNDECIDED,
    VERDICTS,
    decisive,
)
from modtf.analysis.claims.evidence import MOST_TASKS
from modtf.analysis.labels import with_kinds
from modtf.analysis.pairs import as_ratio
from modtf.analysis.rows import CHOICES
from modtf.pages.text import markdown_table, with_interval

read = partial(archive, "first")
NUM_RULES = 8  # the R that all task types were run with
INFORMED = ("modular_op", "gt_modular")
LOUD = {SUPPORTED: "**supported**", CONTRADICTED: "**contradicted**", DEPENDS: "differs"}


def verdicts(judged: pd.DataFrame) -> str:
    """Return a table of judged claims in Markdown: a row per claim and a column per task type.

    A cell holds the verdict, for "undecided" the number of fresh tasks that would decide it, the verdicts at
    all checkpoints, and both false discovery rates."""
    judged = judged.assign(word=[_word(row) for row in judged.itertuples()])
    kinds = list(judged["kind"].unique())
    rows = []
    for text, claim in judged.groupby("text", sort=False):
        words = claim.set_index("kind")["word"]
        rows.append([str(text), *(words.get(kind, "") for kind in kinds)])
    return markdown_table(["claim of the paper", *kinds], rows, left=1 + len(kinds))


def counts(judged: pd.DataFrame) -> str:
    """Return the number of each verdict, and how many supports survive a correction, in Markdown."""
    number = judged["verdict"].value_counts()
    supports = judged[judged["verdict"] == SUPPORTED]
    rows = [[word, str(number.get(word, 0))] for word in VERDICTS]
    rows += [[f"supported with {name} at most 0.05", str((supports[column] <= 0.05).sum())]
             for name, column in (("q", "q"), ("BY", "q_by"))]  # fmt: skip
    return markdown_table(["verdict", "claims x task types"], rows)


def _word(row: Any) -> str:
    word = LOUD.get(row.verdict, row.verdict)
    if row.verdict == UNDECIDED:
        word += f", > {MOST_TASKS}" if row.num_tasks_needed > MOST_TASKS else f", {row.num_tasks_needed:.0f}"
    if row.verdict == NOT_ENOUGH:
        return word
    at_checkpoints = "".join(INITIALS[getattr(row, f"verdict_{name}")] for name in CHOICES)
    return f"{word}; {at_checkpoints}; {row.q:.3f}, {row.q_by:.3f}"


def costs(study: modtf.Study) -> str:
    """Return the runs of each task type, and the cost of one more task, in Markdown."""
    seconds = with_kinds(study.results[study.results["measure"] == "seconds"])
    rows = []
    for kind, part in seconds.groupby("kind", observed=True):
        rules = ", ".join(map(str, sorted(part["num_rules"].unique())))
        cells = len(part.drop_duplicates(["num_rules", "variant"]))
        hours = part["value"].sum() / 3600
        of_one = hours / part["data_seed"].nunique()
        rows.append([kind, rules, cells, len(part), f"{hours:.1f}", f"{of_one:.2f}"])
    return markdown_table(["task type", "R", "cells", "models", "core-hours", "of one task"], rows, left=2)


def savings(study: modtf.Study) -> str:
    """Return the loss of the informed variants as a multiple of `modular`'s at one R, in Markdown."""
    table = against(study.results, level=study.level)
    table = table[(table["num_rules"] == NUM_RULES) & table["distribution"].isin([IN, OUT])]
    table = table.set_index(["kind", "variant", "distribution"])
    columns = [(variant, where) for variant in INFORMED for where in (IN, OUT)]
    rows = []
    for kind in table.index.unique("kind"):
        found = (table.loc[(kind, *column)] for column in columns)
        ratios = [[as_ratio(number) for number in (r.gain, r.high, r.low)] for r in found]
        rows.append([kind, *(with_interval(*numbers) for numbers in ratios)])
    return markdown_table(
        ["task type", *(f"{variant} / modular, {where}" for variant, where in columns)], rows
    )


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of every page."""
    judged = decisive(study.claims())
    tables = (verdicts(judged), savings(study))
    return {
        "study.md": [
            costs(study),
            counts(judged),
            *(stands_on(study.cells, study.checkpoint, table) for table in tables),
        ]
    }
