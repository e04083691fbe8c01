"""Make the table of docs/study.md on whether better specialised seeds perform better.

The question was fixed before the models were trained: alignment against the loss in distribution, once for
each router. The other columns are shown alongside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sources import archive, label, stands_on

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.claims.evidence import AGREEMENT, Evidence, mean_evidence, measured, measures_in
from modtf.analysis.intervals import holm
from modtf.analysis.tracking import rank_correlation
from modtf.metrics import MEASURES, Measure
from modtf.pages.text import markdown_table, with_interval

MODEL = ["num_rules", "width", "data_seed", "seed"]
DRAWS = 20_000  # permutations
ASKED = (MEASURES["alignment"], IN)


read = partial(archive, "seeds")


def by_task(study: modtf.Study, variant: str, measure: Measure, where: str) -> dict[int, np.ndarray]:
    """Return, for each task, the badness of the measure and the loss of all seeds, [2, S]."""
    rows = study.performance
    rows = rows[(rows["distribution"] == where) & (rows["variant"] == variant)]
    pairs = measured(study, measure, variant)[[*MODEL, "badness"]].merge(rows[[*MODEL, "value"]], on=MODEL)
    return {task: seeds[["badness", "value"]].to_numpy().T for task, seeds in pairs.groupby("data_seed")}


def agreement(tasks: Mapping[int, Iterable[ArrayLike]], level: float = 0.95) -> Evidence:
    """Return Spearman's rank correlation of two numbers of the models of a task, 1 if they always rank models
    alike: its mean over tasks."""
    found = pd.DataFrame(
        {"data_seed": list(tasks), "value": [float(rank_correlation(*pair)) for pair in tasks.values()]}
    )
    return replace(mean_evidence(found, "value", "", level=level), limits=AGREEMENT)


def chance(tasks: dict[int, np.ndarray], draws: int = DRAWS) -> float:
    """Return the two-sided p of the mean agreement if losses were permuted among the seeds of each task."""
    rng, found = np.random.default_rng(0), []
    for badness, loss in tasks.values():
        permuted = np.vstack([loss, rng.permuted(np.tile(loss, (draws, 1)), axis=1)])
        found.append(rank_correlation(np.broadcast_to(badness, permuted.shape), permuted))
    means = np.mean(found, axis=0)
    return float(np.mean(np.abs(means) >= abs(means[0]) - 1e-12))


def table(study: modtf.Study) -> str:
    """Return the agreements of all routers, in Markdown."""
    parts = [(part, variant) for part in study.by_kind for variant in part.variants]
    p = [chance(by_task(part, variant, *ASKED)) for part, variant in parts]
    rows = []
    for (part, variant), corrected in zip(parts, holm(p), strict=True):
        columns = [ASKED, *(c for c in product(measures_in(part, "specialisation"), (IN, OUT)) if c != ASKED)]
        tasks = [by_task(part, variant, *column) for column in columns]
        cells = [with_interval(mean.value, *mean.interval) for mean in map(agreement, tasks)]
        rows.append([label(part), variant, cells[0], f"{corrected:.3f}", *cells[1:]])
    names = [f"{measure.name.replace('_', ' ')}, {where.split()[0]}" for measure, where in columns]
    header = ["task type", "router", names[0], "p, Holm", *names[1:]]
    return markdown_table(header, rows, left=2)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the table of the page."""
    return {"study.md": [stands_on(study.cells, study.checkpoint, table(study))]}
