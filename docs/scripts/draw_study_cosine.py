"""Make the tables of docs/study.md on the published variants under a cosine schedule.

python docs/scripts/write_search.py studies/first_cosine_tuning docs/study/first_cosine_tuning.csv.gz
"""

from functools import partial

import pandas as pd
from draw_cosine import rates, trial_losses
from sources import RESULTS, archive, headed, label, measures_table, split, study_file, titled

import modtf
from modtf.experiments.modarch.fixed_routing import times
from modtf.pages.text import markdown_table

first = study_file("first")
PAIRS = (
    ("modular", "monolithic"),
    ("modular_op", "modular"),
    ("gt_modular", "modular"),
    ("gt_modular", "modular_op"),
)
read = partial(archive, "first_cosine")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial, with its family and R."""
    found = []
    for (family, num_rules), chosen in first.RATES.items():
        trials = first.SEARCHES[family].trials(first.variants(), chosen, num_rules)
        losses = trial_losses(RESULTS / "first_cosine_tuning.csv.gz", trials)
        found.append(losses.assign(family=family, num_rules=num_rules))
    return pd.concat(found)


def ratios(study: modtf.Study, constant: modtf.Study) -> str:
    """Return the loss of variants as a multiple of another's, under both schedules, in Markdown."""
    rows = []
    for part in study.by_kind:
        [same] = (each for each in constant.by_kind if each.kinds == part.kinds)
        for num_rules in sorted(part.performance["num_rules"].unique(), reverse=True):
            halves = [
                half[half["num_rules"] == num_rules]
                for each in (same, part)
                for half in split(each.performance)
            ]
            for pair in PAIRS:
                both = ([half[half["variant"] == name] for name in pair] for half in halves)
                cells = [times(*rows_of_pair, part.level) for rows_of_pair in both]
                rows.append([label(part), str(num_rules), " / ".join(pair), *cells])
    header = ["task type", "R", "variants", *headed(["constant", "cosine"])]
    return markdown_table(header, rows, left=3)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page: ratios, then performance and measures, then the searches."""
    measured = [
        titled(part, f"R = {num_rules}, cosine schedule", measures_table(rows, part.level))
        for part in study.by_kind
        for num_rules, rows in part.results.groupby("num_rules", sort=False)
    ]
    searches = [
        f"**{family.upper()}, R = {num_rules}**\n\n{rates(rows)}"
        for (family, num_rules), rows in tuned().groupby(["family", "num_rules"], sort=False)
    ]
    constant = archive("first").part(arch=["mlp", "rnn"])
    return {"study.md": [ratios(study, constant), *measured, *searches]}
