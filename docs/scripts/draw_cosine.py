"""Print the tables of docs/routers_results.md on routers under a cosine schedule.

    python docs/scripts/write_search.py studies/factors_cosine_tuning \\
        docs/study/factors_cosine_tuning.csv.gz
    python docs/scripts/draw_cosine.py

It reads docs/study/factors_cosine.zip, factors_cosine_tuning.csv.gz, and for the constant rates factors.zip.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from sources import study_file

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.contents import stands_on
from modtf.analysis.intervals import holm
from modtf.analysis.ratios import ratios_to
from modtf.analysis.table import table_cells
from modtf.pages.text import markdown_table, with_interval
from modtf.tasks.cell import Cell

DOCS = Path(__file__).parents[1]
STUDIES = DOCS / "study"
factors, protocols = study_file("factors"), study_file("protocols")
SURE = 0.05


def read() -> modtf.Study:
    """Read all reported models."""
    return modtf.Study.read(STUDIES / "factors_cosine.zip")


def tuned() -> pd.DataFrame:
    """Return the validation loss at the end of every trial."""
    return trial_losses(
        STUDIES / "factors_cosine_tuning.csv.gz", protocols.IN_MLP.trials(factors.routers(), factors.RATES)
    )


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
    return {
        setting: dict(zip(rows["router"], rows["rate"], strict=True))
        for setting, rows in best.groupby("setting", sort=False)
    }


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
    frame, order = part.results.assign(variant=named(part.results, names)), [*dict.fromkeys(names.values())]
    frame["variant"] = pd.Categorical(
        frame["variant"], [name for name in order if name in set(frame["variant"])]
    )
    header, rows = table_cells(frame, part.level)
    return markdown_table(header[:-2], [row[:-2] for row in rows])


def named(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.Series:
    """Return the page's names of routers, from the folders of their cells."""
    return rows["folder"].astype(str).str.rsplit("-").str[-1].map(names)


def names_in_mlp() -> dict[str, str]:
    """Return hash -> router of the MLP's cells under both schedules, in the order of the page."""
    hashes = {}
    for setting in factors.RATES:
        old = [factors.CLAMPED[hard] for *_, hard in protocols.REFERENCES.values()]
        old += [*(rate for rate, _ in factors.TUNED.values()), *factors.CAPACITIES.values()]
        for (name, router), rate in zip(factors.routers().items(), old, strict=True):
            [cell] = (factors.mlp_at(setting, rate) * router).cells()
            hashes[cell.hash] = name
    reported = protocols.IN_MLP.reported(factors.routers(), factors.RATES)
    return hashes | {cell.hash: name for name, cell in reported}


def schedules(part: modtf.Study, constant: modtf.Study, names: Mapping[str, str]) -> str:
    """Return losses over those of `uniform` and perfect routing, under both schedules, in Markdown.

    A reference that was not trained under the cosine schedule is left out."""
    setting, texts, p_values = part.kinds[0][1], [], []
    rows = {
        how: each.performance.assign(name=named(each.performance, names))
        for how, each in (("constant", constant), ("cosine", part))
    }
    rows = {
        how: each[(each["setting"] == setting) & each["data_seed"].isin(protocols.COSINE_TASKS)]
        for how, each in rows.items()
    }
    trained = set(rows["cosine"]["name"])
    others = [name for name in dict.fromkeys(names.values()) if name in trained and name != "perfect"]
    references = [name for name in ("uniform", "perfect") if name in trained]
    for name in others:
        for reference in references:
            for each in rows.values():
                for where in (IN, OUT):
                    here = each[each["distribution"] == where]
                    text, p = _ratio(here[here["name"] == name], here[here["name"] == reference], part.level)
                    texts.append(text)
                    p_values.append(p)
    marks = [" *" * (p <= SURE) for p in holm(p_values)]
    cells = np.array([text + mark for text, mark in zip(texts, marks, strict=True)]).reshape(len(others), -1)
    header = [f"/ {reference}, {how}, {where.split()[0]}" for reference in references
              for how in rows for where in (IN, OUT)]  # fmt: skip
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
    found = [rates(losses)]
    for part in study.by_kind:
        made = compared(part, names), schedules(part, constant, names)
        found += [titled(part, "cosine schedule", table) for table in made]
    return found


def titled(part: modtf.Study, words: str, table: str) -> str:
    """Return a table with its task type, a few words and the lines of `stands_on` above it."""
    return stands_on(part.cells, part.checkpoint, f"**{kind_label(*part.kinds[0])}, {words}**\n\n{table}")


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    constant = modtf.Study.read(STUDIES / "factors.zip").of_families(["mlp"])
    return {"routers_results.md": tables(study, constant, tuned(), names_in_mlp())}


if __name__ == "__main__":
    print("\n\n".join(texts(read())["routers_results.md"]))
