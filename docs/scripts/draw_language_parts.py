"""Make the tables of docs/languages.md on larger models, told networks, size alone, and wrong routing.

    modtf report --results=studies/larger --out=report --archive=docs/study/languages_larger.zip
    modtf report --results=studies/told --out=report --archive=docs/study/languages_told.zip
    modtf report --results=studies/total --out=report --archive=docs/study/languages_total.zip
    python docs/scripts/evaluate_misrouting.py studies/cross docs/study/languages_crossed.csv.gz
    python docs/scripts/evaluate_misrouting.py studies/languages docs/study/languages_crossed.csv.gz

docs/studies/languages_registered.md is the design.
"""

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp
from sources import ENDS, RESULTS, archive, folder_names, interval_of, ratio_of, study_file

import modtf
from modtf.analysis.intervals import LEVEL, intervals
from modtf.pages.text import markdown_table, with_interval
from modtf.tasks.families import FAMILIES, IID

CROSSED = RESULTS / "languages_crossed.csv.gz"
RIGHT, TENTH, HALF = "the oracle's routing", "a tenth of the tokens wrong", "half of each weight wrong"
ROUTINGS = {(0.0, False): RIGHT, (0.1, True): TENTH, (0.5, False): HALF}
BESIDE_TOTAL = ("monolithic", "uniform", "hash", "dense", "gt_modular")
read = partial(archive, "languages")


def with_routers(rows: pd.DataFrame, reported: Iterable[tuple[str, modtf.Cell]]) -> pd.DataFrame:
    """Return the rows of the reported cells, with the names of these cells in a column `router`."""
    routers = {cell.folder: router for router, cell in reported}
    return rows.assign(router=folder_names(rows).map(routers)).dropna(subset="router")


def losses(name: str, part: str) -> pd.DataFrame:
    """Return the losses of a part of the study in distribution: router, data_seed, seed, value."""
    rows = archive(name).performance
    reported = getattr(study_file("languages"), part).reported()
    rows = with_routers(rows[rows["condition"].astype(str) == IID], reported)
    return rows[["router", "data_seed", "seed", "value"]]


def crossed() -> pd.DataFrame:
    """Return the losses of models under their own and other routing: trained, asked (names), measure,
    data_seed, seed, value."""
    rows = pd.read_csv(CROSSED)
    for when in ("trained", "asked"):
        pairs = zip(rows[f"{when}_amount"], rows[f"{when}_hard"].astype(bool), strict=True)
        rows[when] = [ROUTINGS[pair] for pair in pairs]
    return rows


def cross_table(rows: pd.DataFrame) -> str:
    """Return the loss of every pair of routings, in and out of distribution, in Markdown."""
    measures = ("loss", f"loss_{FAMILIES['languages'].headline}")
    table = intervals(rows, ["trained", "asked", "measure"]).set_index(["trained", "asked", "measure"])
    best = _pair(rows, RIGHT, RIGHT)
    lines = []
    for trained in ROUTINGS.values():
        for asked in ROUTINGS.values():
            cells = [with_interval(*table.loc[(trained, asked, name), ENDS], ".4f") for name in measures]
            ratio = ratio_of(_pair(rows, trained, asked), best)
            lines.append([trained, asked, *cells, with_interval(*ratio)])
    header = ["trained with", "evaluated with", "loss", "out of distribution", "times the oracle's loss"]
    return markdown_table(header, lines, left=2)


def sampled_over_weighted(rows: pd.DataFrame) -> tuple[float, float, float, float]:
    """Return the loss with a tenth sampled wrong over that with half of each weight wrong, in training and
    evaluation: mean, ends of the interval, and p."""
    pair = [_pair(rows, way, way) for way in (TENTH, HALF)]
    one, other = (part.sort_values("data_seed")["value"].to_numpy() for part in pair)
    return *ratio_of(*pair), float(ttest_1samp(np.log(one / other), 0).pvalue)


def _pair(rows: pd.DataFrame, trained: str, asked: str) -> pd.DataFrame:
    return rows[(rows["trained"] == trained) & (rows["asked"] == asked) & (rows["measure"] == "loss")]


def sizes(level: float = LEVEL) -> str:
    """Return the losses of four routers at both sizes on the same corpora, in Markdown, the best first in
    the smaller."""
    large = losses("languages_larger", "LARGE")
    small = losses("languages", "ROWS")
    small = small[small["router"].isin(large["router"]) & small["data_seed"].isin(large["data_seed"])]
    found = [intervals(rows, ["router"], level=level).set_index("router") for rows in (small, large)]
    names = found[0].sort_values("mean").index
    lines = [[name, *(with_interval(*part.loc[name, ENDS], ".4f") for part in found)] for name in names]
    small_order, large_order = (
        rows.pivot(index="data_seed", columns="router", values="value").rank(axis=1)
        for rows in (small, large)
    )
    same = (small_order == large_order).all(axis=1)
    lines.append(["corpora with the same order", f"{same.sum()} of {len(same)}", ""])
    return markdown_table(["router", "width 32, loss", "width 64, loss"], lines)


def told(level: float = LEVEL) -> str:
    """Return the losses of networks that are told the language beside those that are not, in Markdown."""
    known, hidden = losses("languages_told", "TOLD"), losses("languages", "ROWS")
    best, lines = known[known["router"] == "gt_modular"], []
    for name in dict.fromkeys(known["router"]):
        pair = [rows[rows["router"] == name] for rows in (known, hidden)]
        cells = [interval_of(rows, level) for rows in pair]
        ratios = ratio_of(*pair, level), ratio_of(best, pair[0], level)
        times = (with_interval(*ends, ".2f") for ends in ratios)
        lines.append([name, *(with_interval(*each, ".4f") for each in cells), *times])
    header = ["router", "told", "not told", "told over not told", "gt_modular, told, over it"]
    return markdown_table(header, lines)


def total(level: float = LEVEL) -> str:
    """Return the loss of a network without experts that is as large as all experts, over others', in
    Markdown."""
    large, others = losses("languages_total", "TOTAL"), losses("languages", "ROWS")
    lines = [["all experts' size without experts", with_interval(*interval_of(large, level), ".4f"), ""]]
    for name in BESIDE_TOTAL:
        rows = others[others["router"] == name]
        ratio = ratio_of(large, rows, level)
        lines.append([name, with_interval(*interval_of(rows, level), ".4f"), with_interval(*ratio, ".2f")])
    return markdown_table(["network", "loss", "the first over it"], lines)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    note = "Each model under its own routing and others. The oracle was trained once more for this table.\n\n"
    parts = [sizes(study.level), told(study.level), total(study.level)]
    return {"languages.md": [note + cross_table(crossed()), *parts]}
