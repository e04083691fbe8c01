"""Print how well measures of a matrix rank its cost, and how costs depend on the learning rate.

    python docs/scripts/draw_prices.py

Both are tables of docs/misrouting.md. The matrices are the final ones of routers in docs/study/factors.zip.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from draw_seeds import agreement

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.contents import stands_on
from modtf.experiments.modarch.given import WAYS, times, with_doses
from modtf.metrics import MEASURES
from modtf.pages.text import markdown_table, with_interval

DOCS = Path(__file__).parents[1]
RANKING = ("alignment", "effective_rank")


def read() -> modtf.Study:
    """Return all models of the study."""
    return modtf.Study.read(DOCS / "study" / "factors.zip")


def ranks(study: modtf.Study) -> str:
    """Return `agreements` in Markdown."""
    header = [f"{name.replace('_', ' ')}, {where.split()[0]}" for name in RANKING for where in (IN, OUT)]
    return markdown_table(["task type", "paired runs", *header], agreements(study), left=2)


def agreements(study: modtf.Study) -> list[list[str]]:
    """Return how well measures of the final routing matrices rank their costs, by task type and way.

    Spearman's rank correlation within each task, over the paired runs of its routers; mean over ten tasks.
    """
    rows = []
    for part in study.by_kind:
        performance = part.performance
        twins = performance["model_options"].astype(str).str.contains("of=", regex=False)
        measured = _matrices(part)
        for drawn, way in WAYS.items():
            hard = performance["model_options"].astype(str).str.contains(f"hard={drawn}", regex=False)
            prices = performance[twins & hard].merge(measured, on=["variant", "data_seed"])
            cells = [_agreement(prices[prices["distribution"] == where], name, part.level)
                     for name in RANKING for where in (IN, OUT)]  # fmt: skip
            routers = prices["variant"].nunique()
            rows.append([kind_label(*part.kinds[0][:2]), f"{way}, {routers} routers", *cells])
    return rows


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
    tasks = prices.groupby("data_seed")
    found = agreement({task: (worse * rows[name], rows["value"]) for task, rows in tasks}, level)
    return with_interval(found.value, *found.interval)


def by_rate(studies: Mapping[str, modtf.Study]) -> str:
    """Return the cost of uninformative routing, by its training, in Markdown."""
    rows = []
    for how, study in studies.items():
        for part in study.by_kind:
            doses = with_doses(part)
            perfect, useless = doses[doses["alignment"] == 0], doses[doses["amount"] == 0.875]
            cells = [
                times(*(each[each["distribution"] == where] for each in (of_way, perfect)), part.level)
                for of_way in (useless[useless["drawn"] == drawn] for drawn in WAYS)
                for where in (IN, OUT)
            ]
            rows.append([kind_label(*part.kinds[0][:2]), how, *cells])
    rows.sort(key=lambda row: row[0])
    header = [f"{way}, {where.split()[0]}" for way in WAYS.values() for where in (IN, OUT)]
    return markdown_table(["task type", "learning rate", *header], rows, left=2)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    studies = {
        "3e-4, constant": modtf.Study.read(DOCS / "study" / "misrouting.zip").of_families(["mlp"]),
        "tuned (1.1e-4 to 2.4e-4), constant": study.of_families(["mlp"]),
        "tuned (3e-3 to 3e-2), cosine to 0": modtf.Study.read(DOCS / "study" / "factors_cosine.zip"),
    }
    return {"misrouting.md": [stands_on(study.cells, study.checkpoint, ranks(study)), by_rate(studies)]}


if __name__ == "__main__":
    print("\n\n".join(texts(read())["misrouting.md"]))
