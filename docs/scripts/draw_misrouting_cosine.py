"""Make the tables of docs/misrouting.md on fixed routing under a cosine schedule.

    python docs/scripts/write_search.py studies/misrouting_cosine_tuning \\
        docs/study/misrouting_cosine_tuning.csv.gz
    python docs/scripts/evaluate_misrouting.py studies/misrouting_cosine \\
        docs/study/misrouting_cosine_crossed.csv.gz
"""

from functools import partial

import pandas as pd
from draw_cosine import rates, trial_losses
from draw_cross import best_constant, cross, cross_table
from draw_misrouting import costs, halved, verdicts
from sources import RESULTS, WHERE, archive, label, ratio_of, split, stands_on, study_file, titled

import modtf
from modtf.experiments.modarch.fixed_routing import WAYS, fixed_rows
from modtf.pages.text import markdown_table, with_interval

misrouting, protocols = study_file("misrouting"), study_file("protocols")
read = partial(archive, "misrouting_cosine")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial."""
    trials = protocols.IN_MLP.trials(misrouting.routings(), misrouting.RATES)
    return trial_losses(RESULTS / "misrouting_cosine_tuning.csv.gz", trials)


def shares(study: modtf.Study) -> str:
    """Return the loss or error of every fixed routing in % of the best constant answer's, in Markdown."""
    rows = []
    for part in study.by_kind:
        constant, fixed = best_constant(part), fixed_rows(part)
        order = sorted(misrouting.EVERY, key=lambda which: (which[0] != "spread", which))
        for matrix, amount, way in order:
            same = fixed[
                (fixed["matrix"] == matrix) & (fixed["amount"] == amount) & (fixed["sampled"] == way)
            ]
            if len(same):
                ratios = [ratio_of(half, constant, part.level) for half in split(same)]
                cells = [with_interval(*100 * ends, ".2g") for ends in ratios]
                rows.append([label(part), f"{matrix} {amount:g}", WAYS[way], *cells])
    return markdown_table(["task type", "matrix", "routing", *WHERE.values()], rows, left=3)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    tables = [titled(part, "cosine schedule", costs(part)) for part in study.by_kind]
    crossed = stands_on(study.cells, "last", cross_table(cross(study, "misrouting_cosine")))
    half = stands_on(study.cells, study.checkpoint, halved(study))
    caption = "% of the best constant answer's loss or error in distribution"
    share = stands_on(study.cells, study.checkpoint, f"{caption}\n\n{shares(study)}")
    return {"misrouting.md": [crossed, *tables, half, verdicts(study), rates(tuned()), share]}
