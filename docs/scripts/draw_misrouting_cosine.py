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
from draw_cross import ENDS, best_constant, cross, cross_table
from draw_misrouting import costs, halved, verdicts
from sources import study_file

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.contents import stands_on
from modtf.analysis.ratios import ratios_to
from modtf.experiments.modarch.given import WAYS, with_doses
from modtf.pages.text import markdown_table, with_interval

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


def shares(study: modtf.Study) -> str:
    """Return the loss or error of every fixed routing in % of the best constant answer's, in Markdown."""
    rows = []
    for part in study.by_kind:
        constant, doses = best_constant(part), with_doses(part)
        order = sorted(misrouting.MATRICES.items(), key=lambda item: (item[0][0] != "spread", item[0]))
        for (matrix, amount), drawn in order:
            for way in (False, True)[: 1 + drawn]:
                same = (doses["matrix"] == matrix) & (doses["amount"] == amount) & (doses["drawn"] == way)
                found = [doses[same & (doses["distribution"] == where)] for where in (IN, OUT)]
                if not len(found[0]):
                    continue
                ratios = [ratios_to(each, constant, level=part.level)[ENDS].to_numpy() for each in found]
                cells = [with_interval(*100 * ends, ".2g") for [ends] in ratios]
                rows.append([kind_label(*part.kinds[0][:2]), f"{matrix} {amount:g}", WAYS[way], *cells])
    return markdown_table(["task type", "matrix", "routing", IN, OUT], rows, left=3)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    tables = [titled(part, "cosine schedule", costs(part)) for part in study.by_kind]
    crossed = stands_on(study.cells, "last", cross_table(cross(study, CROSSED)))
    half = stands_on(study.cells, study.checkpoint, halved(study))
    share = stands_on(
        study.cells,
        study.checkpoint,
        f"% of the best constant answer's loss or error in distribution\n\n{shares(study)}",
    )
    return {"misrouting.md": [crossed, *tables, half, verdicts(study), rates(tuned()), share]}


if __name__ == "__main__":
    print("\n\n".join(texts(read())["misrouting.md"]))
