"""Print the tables of docs/misrouting.md on fixed routing under a cosine schedule.

    python docs/scripts/write_search.py studies/misrouting_cosine_tuning \\
        docs/study/misrouting_cosine_tuning.csv.gz
    python docs/scripts/evaluate_misrouting.py studies/misrouting_cosine \\
        docs/study/misrouting_cosine_crossed.csv.gz
    python docs/scripts/draw_misrouting_cosine.py

It reads misrouting_cosine.zip, misrouting_cosine_tuning.csv.gz and misrouting_cosine_crossed.csv.gz in
docs/study.
"""

from pathlib import Path

import pandas as pd
from draw_cosine import rates, titled, trial_losses
from draw_cross import cross, cross_table
from draw_misrouting import costs, halved, verdicts
from sources import study_file

import modtf
from modtf.analysis.contents import stands_on

DOCS = Path(__file__).parents[1]
STUDIES = DOCS / "study"
misrouting, protocols = study_file("misrouting"), study_file("protocols")
CROSSED = STUDIES / "misrouting_cosine_crossed.csv.gz"


def read() -> modtf.Study:
    """Read all reported models."""
    return modtf.Study.read(STUDIES / "misrouting_cosine.zip")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial."""
    trials = protocols.IN_MLP.trials(misrouting.routings(), misrouting.RATES)
    return trial_losses(STUDIES / "misrouting_cosine_tuning.csv.gz", trials)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    tables = [titled(part, "cosine schedule", costs(part)) for part in study.by_kind]
    crossed = stands_on(study.cells, "last", cross_table(cross(study, CROSSED)))
    half = stands_on(study.cells, study.checkpoint, halved(study))
    return {"misrouting.md": [crossed, *tables, half, verdicts(study), rates(tuned())]}


if __name__ == "__main__":
    print("\n\n".join(texts(read())["misrouting.md"]))
