"""Make the tables of docs/routers_results.md on routers under a cosine schedule, and the search for rates.

python docs/scripts/write_search.py studies/factors_cosine_tuning docs/study/factors_cosine_tuning.csv.gz
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sources import RESULTS, WHERE, archive, measures_table, study_file, titled

import modtf
from modtf.analysis.intervals import holm
from modtf.analysis.pairs import ratios_to
from modtf.pages.text import markdown_table, with_interval
from modtf.tasks.cell import Cell

factors, protocols = study_file("factors"), study_file("protocols")
SURE = 0.05
REFERENCES = ("uniform", "perfect")
read = partial(archive, "factors_cosine")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial."""
    trials = protocols.IN_MLP.trials(factors.routers(), factors.RATES)
    return trial_losses(RESULTS / "factors_cosine_tuning.csv.gz", trials)


def trial_losses(table: Path, trials: Iterable[tuple[str, str, float, Cell]]) -> pd.DataFrame:
    """Return setting, router, rate, and the validation loss at the end, the geometric mean over tasks.

    The loss is NaN if a model diverged: the mean of the other tasks would be compared with that of all.
    """
    history = pd.read_csv(table)
    ends = history[(history["measure"] == "loss") & (history["step"] == protocols.COSINE_STEPS)]
    logs = np.log(ends.set_index("folder")["value"]).groupby(level=0)
    means = np.exp(logs.agg(lambda values: values.mean(skipna=False)))
    found = [(*what, means[cell.folder]) for *what, cell in trials]
    return pd.DataFrame(found, columns=["setting", "router", "rate", "loss"])


def best_rates(losses: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return the rate with the lowest validation loss: setting -> router -> rate."""
    best = losses.loc[losses.groupby(["setting", "router"], sort=False)["loss"].idxmin()]
    by_setting = best.groupby("setting", sort=False)
    return {setting: dict(zip(rows["router"], rows["rate"], strict=True)) for setting, rows in by_setting}


def rates(losses: pd.DataFrame) -> str:
    """Return the validation loss of every router at every starting rate, in Markdown."""
    wide = losses.pivot(index=["setting", "router"], columns="rate", values="loss")
    chosen, rows = best_rates(losses), []
    for setting, router in losses[["setting", "router"]].drop_duplicates().itertuples(index=False):
        cells = ["" if np.isnan(value) else f"{value:.5f}" for value in wide.loc[(setting, router)]]
        rows.append([setting, router, *cells, f"{chosen[setting][router]:g}"])
    header = [f"start {rate:g}" for rate in wide.columns]
    return markdown_table(["setting", "router", *header, "chosen"], rows, left=2)


def compared(part: modtf.Study, names: Mapping[str, str]) -> str:
    """Return performance and measures of every router, in Markdown; `names`: hash of a cell -> router."""
    found = named(part.results, names)
    order = [name for name in dict.fromkeys(names.values()) if name in set(found)]
    return measures_table(part.results.assign(variant=pd.Categorical(found, order)), part.level)


def named(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.Series:
    """Return the page's names of routers, from the folders of their cells."""
    return rows["folder"].astype(str).str.rsplit("-").str[-1].map(names)


def names_in_mlp() -> dict[str, str]:
    """Return hash -> router of the MLP's cells under both schedules, in the order of the page."""
    routers, hashes = factors.routers(), {}
    for setting in factors.RATES:
        old = [factors.CLAMPED[hard] for *_, hard in protocols.REFERENCES.values()]
        old += [*(rate for rate, _ in factors.TUNED.values()), *factors.CAPACITIES.values()]
        for (name, router), rate in zip(routers.items(), old, strict=True):
            [cell] = (factors.mlp_at(setting, rate) * router).cells()
            hashes[cell.hash] = name
    return hashes | {cell.hash: name for name, cell in protocols.IN_MLP.reported(routers, factors.RATES)}


def schedules(part: modtf.Study, constant: modtf.Study, names: Mapping[str, str]) -> str:
    """Return losses over those of `uniform` and perfect routing, under both schedules, in Markdown.

    A reference that was not trained under the cosine schedule is left out."""
    rows, setting = {}, part.kinds[0][1]
    for how, study in (("constant", constant), ("cosine", part)):
        each = study.performance.assign(name=named(study.performance, names))
        rows[how] = each[(each["setting"] == setting) & each["data_seed"].isin(protocols.COSINE_TASKS)]
    trained = set(rows["cosine"]["name"])
    others = [name for name in dict.fromkeys(names.values()) if name in trained and name != "perfect"]
    columns = [(r, how, where) for r in REFERENCES if r in trained for how in rows for where in WHERE]
    texts, p_values = [], []
    for name in others:
        for reference, how, where in columns:
            same = rows[how][rows[how]["distribution"] == WHERE[where]]
            first, second = (same[same["name"] == which] for which in (name, reference))
            text, p = _ratio(first, second, part.level)
            texts.append(text)
            p_values.append(p)
    marks = [" *" * (p <= SURE) for p in holm(p_values)]
    cells = np.array([text + mark for text, mark in zip(texts, marks, strict=True)]).reshape(len(others), -1)
    header = [f"/ {reference}, {how}, {where}" for reference, how, where in columns]
    return markdown_table(["router", *header], [[n, *r] for n, r in zip(others, cells, strict=True)])


def _ratio(first: pd.DataFrame, second: pd.DataFrame, level: float) -> tuple[str, float]:
    """Return the geometric mean of the ratios with its interval, and the two-sided p that it is 1."""
    if first.empty or second.empty or first["folder"].iloc[0] == second["folder"].iloc[0]:
        return "", float("nan")
    [ratio] = ratios_to(first, second, level=level).itertuples()
    return with_interval(ratio.mean, ratio.low, ratio.high), ratio.p


def tables(
    study: modtf.Study, constant: modtf.Study, losses: pd.DataFrame, names: Mapping[str, str]
) -> list[str]:
    """Return the tables of a page: the search for rates, then performance and ratios of every task type."""
    made = [
        titled(part, "cosine schedule", table)
        for part in study.by_kind
        for table in (compared(part, names), schedules(part, constant, names))
    ]
    return [rates(losses), *made]


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    constant = archive("factors").part(arch=["mlp"])
    return {"routers_results.md": tables(study, constant, tuned(), names_in_mlp())}
