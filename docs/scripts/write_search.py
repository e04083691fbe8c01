"""Write the validation losses of a search for learning rates as one table.

    python docs/scripts/write_search.py studies/factors_cosine_tuning docs/study/factors_cosine_tuning.csv.gz

A trial serves its validation loss alone, so the rest of its results is not archived.
"""

import sys
from pathlib import Path

import pandas as pd

from modtf.base.files import write_table
from modtf.results import find_cells, load_history
from modtf.tasks.families import IID

COLUMNS = ["folder", "step", "data_seed", "seed", "measure", "value"]


def search(results: str | Path) -> pd.DataFrame:
    """Return loss and error at every evaluation during training; `folder` is the name of the cell.

    Raise `ValueError` if a trial is missing, because the best of the others would pass for the best of all.
    """
    cells = find_cells(results)
    missing = [str(cell.path) for cell in cells if not (cell.is_finished and cell.has_history)]
    if missing:
        raise ValueError(f"{len(missing)} of {len(cells)} trials are not finished, such as {missing[0]}.")
    rows = load_history(cells)
    rows = rows[rows["measure"].isin(["loss", "error"]) & (rows["condition"] == IID)]
    rows = rows.assign(folder=rows["folder"].astype(str).map(lambda path: Path(path).name))
    return rows.sort_values(["folder", "measure", "data_seed", "seed", "step"])[COLUMNS]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Give the folder of the trials and the table to write (.csv.gz).")
    write_table(sys.argv[2], search(sys.argv[1]))
