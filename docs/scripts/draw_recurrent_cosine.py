"""Print the tables of docs/routers_results.md on the RNN under a cosine schedule.

    modtf sweep --study=recurrent_cosine_tuning --out=studies/recurrent_cosine_tuning
    python docs/scripts/write_search.py studies/recurrent_cosine_tuning \\
        docs/study/recurrent_cosine_tuning.csv.gz
    modtf sweep --study=recurrent_cosine --out=studies/recurrent_cosine
    python docs/scripts/draw_recurrent_cosine.py

It reads recurrent_cosine.zip and recurrent_cosine_tuning.csv.gz in docs/study, and for the constant rate
factors.zip and misrouting.zip.
"""

from pathlib import Path

import pandas as pd
from draw_cosine import tables, trial_losses

import modtf
from modtf.experiments.modarch.studies.factors_cosine import named_cells, trials
from modtf.experiments.modarch.studies.misrouting import recurrent
from modtf.experiments.modarch.studies.recurrent_cosine import RATES, SEARCH, rows
from modtf.results import find_cells

STUDIES = Path(__file__).parents[1] / "study"


def read() -> modtf.Study:
    """Read all reported models."""
    return modtf.Study.read(STUDIES / "recurrent_cosine.zip")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial."""
    return trial_losses(STUDIES / "recurrent_cosine_tuning.csv.gz", trials(rows(), RATES, search=SEARCH))


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    constant = {(recurrent() * row).cells()[0].hash: name for name, row in rows().items()}
    cells = find_cells([STUDIES / "factors.zip", STUDIES / "misrouting.zip"])
    before = modtf.Study.read([cell for cell in cells if cell.definition.hash in constant])
    names = constant | {cell.hash: name for name, cell in named_cells(rows(), RATES, search=SEARCH)}
    return {"routers_results.md": tables(study, before, tuned(), names)}


if __name__ == "__main__":
    print("\n\n".join(texts(read())["routers_results.md"]))
