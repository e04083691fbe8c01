"""Make the tables of docs/misrouting.md on prices: how well measures of a matrix rank its cost, and how costs
depend on the learning rate. The matrices are the final ones of routers in docs/study/factors.zip.
"""

from collections.abc import Mapping
from functools import partial

import pandas as pd
from draw_seeds import agreement
from sources import archive, headed, label, split, stands_on

import modtf
from modtf.experiments.modarch.fixed_routing import WAYS, fixed_rows, times
from modtf.metrics import MEASURES
from modtf.pages.text import markdown_table, with_interval

RANKING = ("alignment", "effective_rank")
read = partial(archive, "factors")


def ranks(study: modtf.Study) -> str:
    """Return how well measures of the final routing matrices rank their costs, in Markdown.

    Spearman's rank correlation within each task, over the paired runs of its routers; mean over ten tasks.
    """
    rows = []
    for part in study.by_kind:
        options = part.performance["model_options"].astype(str)
        twins = part.performance[options.str.contains("of=", regex=False)]
        for sampled, way in WAYS.items():
            hard = options[twins.index].str.contains(f"hard={sampled}", regex=False)
            prices = twins[hard].merge(_matrices(part), on=["variant", "data_seed"])
            cells = [_agreement(half, name, part.level) for name in RANKING for half in split(prices)]
            rows.append([label(part), f"{way}, {prices['variant'].nunique()} routers", *cells])
    header = ["task type", "paired runs", *headed(name.replace("_", " ") for name in RANKING)]
    return markdown_table(header, rows, left=2)


def _matrices(part: modtf.Study) -> pd.DataFrame:
    """Return variant, data_seed and the measures of the matrix of every paired run."""
    rows = []
    for found in part.activations():
        for member, task in zip(found.at("last"), found.data_seeds, strict=True):
            values = {name: MEASURES[name].function(member) for name in RANKING}
            rows.append({"variant": found.cell["variant"], "data_seed": task, **values})
    return pd.DataFrame(rows)


def _agreement(prices: pd.DataFrame, name: str, level: float) -> str:
    worse = 1.0 if MEASURES[name].smaller_is_better else -1.0
    tasks = {task: (worse * rows[name], rows["value"]) for task, rows in prices.groupby("data_seed")}
    found = agreement(tasks, level)
    return with_interval(found.value, *found.interval)


def by_rate(studies: Mapping[str, modtf.Study]) -> str:
    """Return the cost of uninformative routing, by its training, in Markdown."""
    rows = []
    for how, study in studies.items():
        for part in study.by_kind:
            fixed = fixed_rows(part)
            perfect, useless = fixed[fixed["alignment"] == 0], fixed[fixed["amount"] == 0.875]
            cells = [
                times(*pair, part.level)
                for sampled in WAYS
                for pair in zip(split(useless[useless["sampled"] == sampled]), split(perfect), strict=True)
            ]
            rows.append([label(part), how, *cells])
    rows.sort(key=lambda row: row[0])
    return markdown_table(["task type", "learning rate", *headed(WAYS.values())], rows, left=2)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    studies = {
        "3e-4, constant": archive("misrouting").part(arch=["mlp"]),
        "tuned (1.1e-4 to 2.4e-4), constant": study.part(arch=["mlp"]),
        "tuned (3e-3 to 3e-2), cosine to 0": archive("factors_cosine"),
    }
    return {"misrouting.md": [stands_on(study.cells, study.checkpoint, ranks(study)), by_rate(studies)]}
