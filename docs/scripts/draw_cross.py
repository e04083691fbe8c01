"""Make the tables of docs/misrouting.md on training against evaluation.

The first table reads docs/study/misrouting.zip and misrouting_crossed.csv.gz. The other reads
misrouting_cosine.zip (MLP), recurrent_cosine.zip (RNN) and their _crossed.csv.gz. They have losses as shares
of the best constant answer's, and what follows from a task's rules.
"""

from itertools import product

import numpy as np
import pandas as pd
from draw_misrouting import RIGHT, evaluated
from draw_misrouting import read as read
from sources import ENDS, archive, label, ratio_of, stands_on

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.learned import final_performance
from modtf.datasets.families.mlp import Affine
from modtf.pages.text import markdown_table, with_interval

TENTH = "spread 0.1, sampled"
RULES, WRONG = "perfect routing", "a tenth misrouted"
ROUTINGS = {RULES: RIGHT, WRONG: TENTH}
WAYS = ((RULES, RULES), (WRONG, WRONG), (WRONG, RULES), (RULES, WRONG))  # in training and in evaluation
TASKS = range(10, 15)  # under a cosine schedule
SHARES = ["share", "share_low", "share_high"]
STARTS = ("perfect", TENTH)  # their names among the rates


def cross(study: modtf.Study, name: str = "misrouting") -> pd.DataFrame:
    """Return the cost of modules, each trained and evaluated with or without a tenth sampled wrong.

    Args:
        study: the models under their own routing.
        name: of its archive.

    Returns:
        kind, distribution, trained, asked (the evaluated routing), loss (the mean), and mean, low, high: the
        loss or error at the last weights, as a multiple of perfect routing in training and evaluation on the
        same tasks. share, share_low and share_high: in % of the best constant answer's in distribution.
    """
    found = []
    for part in study.at("last").by_kind:
        own, other = evaluated(part, name)
        rows = pd.concat([own.assign(asked=own["trained"]), other[other["asked"] != other["trained"]]])
        constant = best_constant(part)
        for where, (trained, asked) in product((IN, OUT), WAYS):
            here = rows[rows["distribution"] == where]
            same, best = (_pair(here, *ways) for ways in ((trained, asked), (RULES, RULES)))
            ends = dict(zip(ENDS, ratio_of(same, best, part.level), strict=True))
            share = 100 * ratio_of(same, constant, part.level)
            ends |= dict(zip(SHARES, share, strict=True)) | {"loss": same["value"].mean()}
            shared = {"kind": label(part), "distribution": where, "trained": trained, "asked": asked}
            found.append(shared | ends)
    return pd.DataFrame(found)


def best_constant(part: modtf.Study) -> pd.DataFrame:
    """Return the loss or error of the best constant answer in distribution: data_seed, seed and value."""
    constant = final_performance(part).groupby(["data_seed", "seed"], observed=True)["constant"].median()
    return constant.rename("value").reset_index()


def _pair(rows: pd.DataFrame, trained: str, asked: str) -> pd.DataFrame:
    return rows[(rows["trained"] == ROUTINGS[trained]) & (rows["asked"] == ROUTINGS[asked])]


def share_table(table: pd.DataFrame) -> str:
    """Return losses in distribution, their shares and what misrouting must cost, in Markdown."""
    table = table[table["distribution"] == IN]
    rows = []
    for row in table.itertuples():
        known = forced(row.kind) if (row.trained, row.asked) == (RULES, WRONG) else None
        cells = [f"{row.loss:.3g}", with_interval(*(getattr(row, name) for name in SHARES), ".2g")]
        rows.append([row.kind, row.trained, row.asked, *cells, "" if known is None else f"{known:.3g}"])
    header = ["trained with", "evaluated with", "loss or error", "% of the best constant answer's"]
    return markdown_table(["task type", *header, "loss or error that the rules imply"], rows, left=3)


def forced(kind: str) -> float | None:
    """Return the loss or error that a tenth of wrong modules causes if every module knows its rule (MLP).

    A token of rule r is answered by the module of another rule s with probability 0.1. In regression this
    costs 0.1 E|y_r - y_s|, in classification (in %) 10 P(the signs of y_r and y_s differ).
    """
    if not kind.startswith("MLP"):
        return None
    found = []
    for seed in TASKS:
        rules = Affine.parameters(modtf.Task("mlp", num_rules=8, data_seed=seed))
        maps = np.stack([rules["alpha"], rules["beta"]], axis=1)
        others = ~np.eye(len(maps), dtype=bool)
        apart = np.linalg.norm(maps[:, np.newaxis] - maps, axis=-1) * np.sqrt(2 / np.pi)
        unit = maps / np.linalg.norm(maps, axis=1, keepdims=True)
        angle = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
        found.append(10 * angle[others].mean() if "classification" in kind else 0.1 * apart[others].mean())
    return float(np.mean(found))


def cross_table(table: pd.DataFrame) -> str:
    """Return the cross in Markdown."""
    table = table.assign(
        words=[with_interval(r.mean, r.low, r.high) for r in table.itertuples()],
        way=table["trained"] + " / " + table["asked"],
    )
    wide = table.pivot(index=["kind", "distribution"], columns="way", values="words")
    ways = [f"{one} / {other}" for one, other in product((RULES, WRONG), repeat=2)][1:]
    rows = [
        [kind, where, *wide.loc[(kind, where), ways]]
        for kind in dict.fromkeys(table["kind"])
        for where in (IN, OUT)
    ]
    header = (f"trained with {way.replace('/ ', '/ evaluated with ')}" for way in ways)
    return markdown_table(["task type", "", *header], rows, left=2)


def shown() -> pd.DataFrame:
    """Return the crosses of the figure, under a cosine schedule."""
    names = ("misrouting_cosine", "recurrent_cosine")
    return pd.concat([cross(archive(name), name) for name in names], ignore_index=True)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the table of the page."""
    under_cosine = share_table(shown())
    return {"misrouting.md": [stands_on(study.cells, "last", cross_table(cross(study))), under_cosine]}
