"""Make the tables of docs/routers_results.md and docs/misrouting.md on the RNN under a cosine schedule.

    python docs/scripts/write_search.py studies/recurrent_cosine_tuning \\
        docs/study/recurrent_cosine_tuning.csv.gz
    python docs/scripts/evaluate_misrouting.py studies/recurrent_cosine \\
        docs/study/recurrent_cosine_crossed.csv.gz
"""

from functools import partial

import pandas as pd
from draw_cosine import tables, trial_losses
from draw_cross import cross, cross_table
from draw_misrouting import costs, halved, verdicts
from sources import RESULTS, archive, stands_on, study_file

import modtf
from modtf.results import find_cells

protocols, recurrent = study_file("protocols"), study_file("recurrent")
read = partial(archive, "recurrent_cosine")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial."""
    trials = recurrent.IN_RNN.trials(recurrent.rows(), recurrent.RATES)
    return trial_losses(RESULTS / "recurrent_cosine_tuning.csv.gz", trials)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of each page."""
    rows = recurrent.rows()
    constant = {(protocols.recurrent() * row).cells()[0].hash: name for name, row in rows.items()}
    cells = find_cells([RESULTS / "factors.zip", RESULTS / "misrouting.zip"])
    before = modtf.Study.read([cell for cell in cells if cell.definition.hash in constant])
    reported = recurrent.IN_RNN.reported(rows, recurrent.RATES)
    names = constant | {cell.hash: name for name, cell in reported}
    crossed = stands_on(study.cells, "last", cross_table(cross(study, "recurrent_cosine")))
    measured = [stands_on(study.cells, study.checkpoint, table(study)) for table in (costs, halved)]
    return {
        "routers_results.md": tables(study, before, tuned(), names),
        "misrouting.md": [crossed, *measured, verdicts(study)],
    }
