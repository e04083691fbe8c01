"""Print the tables of docs/routers_results.md and docs/misrouting.md on the RNN under a cosine schedule.

    python docs/scripts/write_search.py studies/recurrent_cosine_tuning \\
        docs/study/recurrent_cosine_tuning.csv.gz
    python docs/scripts/evaluate_misrouting.py studies/recurrent_cosine \\
        docs/study/recurrent_cosine_crossed.csv.gz
    python docs/scripts/draw_recurrent_cosine.py

It reads recurrent_cosine.zip, recurrent_cosine_tuning.csv.gz and recurrent_cosine_crossed.csv.gz in
docs/study, and for the constant rate factors.zip and misrouting.zip.
"""

from pathlib import Path

import pandas as pd
from draw_cosine import tables, trial_losses
from draw_cross import RECURRENT, cross, cross_table
from draw_misrouting import costs, halved, verdicts
from sources import study_file

import modtf
from modtf.analysis.contents import stands_on
from modtf.results import find_cells

STUDIES = Path(__file__).parents[1] / "study"
protocols, recurrent = study_file("protocols"), study_file("recurrent")


def read() -> modtf.Study:
    """Read all reported models."""
    return modtf.Study.read(STUDIES / "recurrent_cosine.zip")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial."""
    trials = recurrent.IN_RNN.trials(recurrent.rows(), recurrent.RATES)
    return trial_losses(STUDIES / "recurrent_cosine_tuning.csv.gz", trials)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of each page."""
    rows = recurrent.rows()
    constant = {(protocols.recurrent() * row).cells()[0].hash: name for name, row in rows.items()}
    cells = find_cells([STUDIES / "factors.zip", STUDIES / "misrouting.zip"])
    before = modtf.Study.read([cell for cell in cells if cell.definition.hash in constant])
    reported = recurrent.IN_RNN.reported(rows, recurrent.RATES)
    names = constant | {cell.hash: name for name, cell in reported}
    crossed = stands_on(study.cells, "last", cross_table(cross(study, RECURRENT)))
    measured = [stands_on(study.cells, study.checkpoint, table(study)) for table in (costs, halved)]
    return {
        "routers_results.md": tables(study, before, tuned(), names),
        "misrouting.md": [crossed, *measured, verdicts(study)],
    }


if __name__ == "__main__":
    for page, found in texts(read()).items():
        print(f"{page}\n\n" + "\n\n".join(found))
