"""Sections of the report on analyses, with their tables and figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from modtf.base.files import write_table
from modtf.pages import page
from modtf.routing.analyses import ANALYSES, Analysed, Analyses
from modtf.routing.analyses.sentences import number, number_range
from modtf.routing.names import Names
from modtf.routing.report.write import shown

FOLDER = "analyses"  # of their tables and figures
READ = (
    "Open an analysis to see its figure, its definition and its numbers. Chance is the value of a router "
    "that knows nothing; each analysis says which one. 95% of such routers lie between the chance limits."
)


def analysed_sections(analyses: Analyses, out: Path, names: Names) -> list[page.Section]:
    """Write NAME.csv and the figures of each analysis to `out`/analyses; return a section of folds."""
    folds = [_fold(name, found, out, names) for name, found in analyses.found.items()]
    missing = [f"{ANALYSES[name].title}: {why}." for name, why in analyses.missing.items()]
    if not folds and not missing:
        return []
    left_out = [
        page.Fold("Analyses that need more than this file holds", [page.Text(text) for text in missing])
    ]
    return [page.Section("Analyses", [READ], content=[*folds, *left_out[: len(missing)]])]


def _fold(name: str, found: Analysed, out: Path, names: Names) -> page.Fold:
    analysis, table = ANALYSES[name], found.table
    if names.layers is not None:
        table = table.assign(layer_name=table["layer"].map(names.layer_name))
    file = f"{FOLDER}/{name}.csv"
    write_table(out / file, table)
    images = [
        replace(shown(picture, out / FOLDER), files=f"{FOLDER}/{picture.name}.png; {file}")
        for picture in found.pictures
    ]
    texts = [analysis.about, *found.sentences[1:], *found.notes]
    words = [f"Definition: {analysis.definition}", f"Chance: {analysis.null}", f"Source: {analysis.source}"]
    numbers = page.Table(in_short(table, names), file)
    parts = [*map(page.Text, texts), *images, *[page.Text(word, small=True) for word in words], numbers]
    return page.Fold(f"{analysis.title}. {found.sentences[0]}", parts)


def in_short(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Return a row for each measure: both ends of its range over layers, and the range of chance."""
    rows = []
    for measure, part in table[(table["item"] == "") & table["value"].notna()].groupby("measure", sort=False):
        part = part.astype({"value": float}).sort_values("value", kind="stable")
        row = {"measure": str(measure).replace("_", " ")}
        for column, place in (("smallest", 0), ("largest", -1)):
            one = part.iloc[place]
            ends = "" if np.isnan(one["low"]) else f" [{number(one['low'])}, {number(one['high'])}]"
            row[column] = f"{number(one['value'])}{ends}"
            row[f"{column} in layer"] = names.layer(int(one["layer"]))
        known = part.dropna(subset=["chance_low"])
        row["chance"] = (
            number_range(known["chance_low"].min(), known["chance_high"].max()) if len(known) else ""
        )
        rows.append(row)
    return pd.DataFrame(rows)
