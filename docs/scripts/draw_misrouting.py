"""Print the tables of docs/misrouting.md at constant rates from docs/study/misrouting.zip.

draw_cross.py draws the figure on top of the page; draw_prices.py makes its table of trained routers.

    modtf report --results=studies/misrouting --archive=docs/study/misrouting.zip
    python docs/scripts/evaluate_misrouting.py studies/misrouting docs/study/misrouting_crossed.csv.gz
    python docs/scripts/draw_misrouting.py
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from draw_cosine import titled
from sources import study_file

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.claims import decisive, letters, number_words
from modtf.analysis.contents import stands_on, whole_kinds
from modtf.experiments.modarch.claims.misrouting import BLOCKS, MARGIN, NARROWER
from modtf.experiments.modarch.given import WAYS, distance, effect, saved, times, with_doses
from modtf.metrics import inverse_mutual_information
from modtf.models.routers.clamped import clamped_matrix
from modtf.pages.text import markdown_table
from modtf.results import find_cells
from modtf.tasks.families import FAMILIES

DOCS = Path(__file__).parents[1]
CROSSED = DOCS / "study" / "misrouting_crossed.csv.gz"
TENTH = 0.1
misrouting = study_file("misrouting")
RATES = {"mlp": "3e-4", "rnn": "3e-3"}  # constant
APART = ("misrouting_costs", "a_tenth_misrouted_is_cheap", "half_the_modules_cost")
CLAIMS = [*(f"{name}_{way}" for name in APART for way in WAYS.values()), "sampled_costs_more"]


def read() -> modtf.Study:
    """Return all models of the task types that were run completely."""
    cells = find_cells(DOCS / "study" / "misrouting.zip")
    return modtf.Study.read(whole_kinds(cells, misrouting.misrouting()))


def costs(part: modtf.Study) -> str:
    """Return the cost of every fixed routing, as a multiple of perfect routing, in Markdown."""
    doses, rows = with_doses(part), []
    where = [doses[doses["distribution"] == name] for name in (IN, OUT)]
    perfect = [each[(each["matrix"] == "spread") & (each["amount"] == 0)] for each in where]
    order = sorted(misrouting.MATRICES.items(), key=lambda item: (item[0][0] != "spread", item[0]))
    for (matrix, amount), drawn in order:
        if (matrix, amount) == ("spread", 0):
            continue
        given, cells = clamped_matrix(8, matrix, amount), []
        for way in (False, True)[: 1 + drawn]:
            for each, best in zip(where, perfect, strict=True):
                same = (each["matrix"] == matrix) & (each["amount"] == amount) & (each["drawn"] == way)
                cells.append(times(each[same], best, part.level))
        if not any(cells):
            continue
        cells += ["the same"] * (4 - len(cells))
        told = [f"{inverse_mutual_information(given):.2f}", str(np.linalg.matrix_rank(given))]
        rows.append([f"{matrix} {amount:g}", f"{distance(matrix, amount):.3f}", *told, *cells])
    header = [f"{way}, {name.split()[0]}" for way in WAYS.values() for name in (IN, OUT)]
    return markdown_table(["matrix", "alignment", "inverse mutual information", "rank", *header], rows)


def halved(study: modtf.Study) -> str:
    """Return the loss or error of half the modules as a multiple of all modules, in Markdown."""
    rows = []
    for part in study.by_kind:
        doses, (arch, setting) = with_doses(part), part.kinds[0][:2]
        for size in BLOCKS:
            pairs = [
                saved(
                    doses[doses["distribution"] == where], ("collapsed", size, drawn), ("block", size, drawn)
                )
                for drawn in WAYS
                for where in (IN, OUT)
            ]
            cells = [effect(pair, NARROWER.get(arch, MARGIN), part.level) for pair in pairs]
            if any(cells):
                rows.append([kind_label(arch, setting), f"{size // 2} / {size} for {size} rules", *cells])
    header = [f"{way}, {name.split()[0]}" for way in WAYS.values() for name in (IN, OUT)]
    return markdown_table(["task type", "modules", *header], rows, left=2)


def verdicts(study: modtf.Study, claims: Sequence[str] = CLAIMS) -> str:
    """Return the claims with their verdicts, and the number nearest to the border, in Markdown."""
    rows = [
        [row.text, row.kind, row.verdict, row.evidence, _number(row), letters(row)]
        for _, row in decisive(study.claims(claims)).iterrows()
    ]
    header = ["claim", "task type", "verdict", "weakest of its numbers", "number", "at the checkpoints"]
    return markdown_table(header, rows, left=4)


def _number(row: pd.Series) -> str:
    if not math.isfinite(row["value"]):
        return "-"
    return ("" if row["is_ratio"] else "slope ") + number_words(row)


def crossed(study: modtf.Study) -> str:
    """Return the effect of evaluating models under another routing than their own, in Markdown.

    Loss in and out of distribution, as multiples of the loss under their own routing. Of the models trained
    by the rules, only the evaluations with a tenth of the tokens misrouted are listed."""
    asked, rows = pd.read_csv(CROSSED), []
    own = pd.concat([with_doses(part) for part in study.at("last").by_kind])
    own["cell"] = own["folder"].astype(str).str.rsplit("-").str[-1]
    for cell, part in asked[asked["cell"].isin(own["cell"])].groupby("cell", sort=False):
        ours = own[own["cell"] == cell]
        arch, setting = str(ours["arch"].iloc[0]), str(ours["setting"].iloc[0])
        measure = FAMILIES[arch].performance_measure(setting)
        names = {IN: measure, OUT: f"{measure}_{FAMILIES[arch].headline}"}
        for routing, found in part.groupby(["asked_matrix", "asked_amount", "asked_hard"], sort=False):
            first = found.iloc[0]
            if first.trained_matrix == "spread" and first.trained_amount == 0 and routing[1] != TENTH:
                continue
            trained = f"{first.trained_matrix} {first.trained_amount:g}, {WAYS[bool(first.trained_hard)]}"
            told = [
                kind_label(arch, setting),
                trained,
                f"{routing[0]} {routing[1]:g}, {WAYS[bool(routing[2])]}",
            ]
            cells = [
                times(found[found["measure"] == name], ours[ours["distribution"] == where], study.level)
                for where, name in names.items()
            ]
            rows.append([*told, *cells])
    return markdown_table(["task type", "trained under", "evaluated under", "in", "out"], rows, left=3)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    tables = [titled(part, f"constant rate {RATES[part.kinds[0][0]]}", costs(part)) for part in study.by_kind]
    made = stands_on(study.cells, study.checkpoint, halved(study)), verdicts(study)
    return {"misrouting.md": [*tables, *made, stands_on(study.cells, "last", crossed(study))]}


if __name__ == "__main__":
    trained = read()
    print("\n\n".join(texts(trained)["misrouting.md"]))
