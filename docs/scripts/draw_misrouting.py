"""Make the tables of docs/misrouting.md at constant rates.

python docs/scripts/evaluate_misrouting.py studies/misrouting docs/study/misrouting_crossed.csv.gz
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sources import RESULTS, headed, label, split, stands_on, study_file, titled, whole_kinds

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.claims import decisive, letters, number_words
from modtf.experiments.modarch.claims.misrouting import BLOCKS, MARGIN, NARROWER
from modtf.experiments.modarch.fixed_routing import WAYS, distance, effect, fixed_rows, saved, times
from modtf.metrics import inverse_mutual_information
from modtf.models.routers.clamped import clamped_matrix
from modtf.pages.text import markdown_table
from modtf.results import find_cells
from modtf.tasks.families import FAMILIES

RIGHT = "spread 0, weighted"
RATES = {"mlp": "3e-4", "rnn": "3e-3"}  # constant
APART = ("misrouting_costs", "a_tenth_misrouted_is_cheap", "half_the_modules_cost")
CLAIMS = [*(f"{name}_{way}" for name in APART for way in WAYS.values()), "sampled_costs_more"]
misrouting = study_file("misrouting")


def read() -> modtf.Study:
    """Return all models of the task types that were run completely."""
    return modtf.Study.read(whole_kinds(find_cells(RESULTS / "misrouting.zip"), misrouting.misrouting()))


def costs(part: modtf.Study) -> str:
    """Return the cost of every fixed routing, as a multiple of perfect routing, in Markdown."""
    halves, rows = split(fixed_rows(part)), []
    perfect = [half[(half["matrix"] == "spread") & (half["amount"] == 0)] for half in halves]
    order = sorted(misrouting.MATRICES.items(), key=lambda item: (item[0][0] != "spread", item[0]))
    for (matrix, amount), differs in order:
        if (matrix, amount) == ("spread", 0):
            continue
        same = [half[(half["matrix"] == matrix) & (half["amount"] == amount)] for half in halves]
        cells = [
            times(each[each["sampled"] == way], best, part.level)
            for way in (False, True)[: 1 + differs]
            for each, best in zip(same, perfect, strict=True)
        ]
        if any(cells):
            values = clamped_matrix(8, matrix, amount)
            about = [f"{inverse_mutual_information(values):.2f}", str(np.linalg.matrix_rank(values))]
            cells += ["the same"] * (4 - len(cells))
            rows.append([f"{matrix} {amount:g}", f"{distance(matrix, amount, 8):.3f}", *about, *cells])
    header = ["matrix", "alignment", "inverse mutual information", "rank", *headed(WAYS.values())]
    return markdown_table(header, rows)


def halved(study: modtf.Study) -> str:
    """Return the loss or error of half the modules as a multiple of all modules, in Markdown."""
    rows = []
    for part in study.by_kind:
        halves, within = split(fixed_rows(part)), NARROWER.get(part.kinds[0][0], MARGIN)
        for size in BLOCKS:
            pairs = [
                saved(half, ("collapsed", size, way), ("block", size, way)) for way in WAYS for half in halves
            ]
            cells = [effect(pair, within, part.level) for pair in pairs]
            if any(cells):
                rows.append([label(part), f"{size // 2} / {size} for {size} rules", *cells])
    return markdown_table(["task type", "modules", *headed(WAYS.values())], rows, left=2)


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


def routing_name(matrix: str, amount: float, sampled: bool) -> str:
    """Return "spread 0.1, sampled"."""
    return f"{matrix} {amount:g}, {WAYS[bool(sampled)]}"


def evaluated(part: modtf.Study, name: str = "misrouting") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return performance under the models' own routing, and that of the same models under another.

    Args:
        part: models of one task type with fixed routing, at the last weights.
        name: of the archive; evaluate_misrouting.py evaluates its models under other routings.

    Returns:
        Both have the columns cell, trained (name of the routing), distribution, data_seed, seed, value. The
        second has asked, that of the evaluation.
    """
    own = fixed_rows(part)
    own["trained"] = [routing_name(*r) for r in own[["matrix", "amount", "sampled"]].itertuples(index=False)]
    own["cell"] = own["folder"].astype(str).str.rsplit("-").str[-1]
    family, setting = FAMILIES[part.kinds[0][0]], part.kinds[0][1]
    measure = family.performance_measure(setting)
    asked = pd.read_csv(RESULTS / f"{name}_crossed.csv.gz")
    asked = asked[asked["cell"].isin(own["cell"])]
    asked["distribution"] = asked["measure"].map({measure: IN, f"{measure}_{family.headline}": OUT})
    for when in ("trained", "asked"):
        columns = [f"{when}_{option}" for option in ("matrix", "amount", "hard")]
        asked[when] = [routing_name(*routing) for routing in asked[columns].itertuples(index=False)]
    return own, asked[asked["distribution"].notna()]


def crossed(study: modtf.Study) -> str:
    """Return the effect of evaluating models under another routing than their own, in Markdown.

    Loss in and out of distribution, as multiples of the loss under their own routing. Of the models trained
    by the rules, only the evaluations with a tenth of the tokens misrouted are listed."""
    rows = []
    for part in study.at("last").by_kind:
        own, other = evaluated(part)
        other = other[(other["trained"] != RIGHT) | other["asked"].str.startswith("spread 0.1,")]
        for (cell, trained, asked), found in other.groupby(["cell", "trained", "asked"], sort=False):
            halves = zip(split(found), split(own[own["cell"] == cell]), strict=True)
            rows.append([label(part), trained, asked, *(times(*pair, study.level) for pair in halves)])
    return markdown_table(["task type", "trained under", "evaluated under", "in", "out"], rows, left=3)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    tables = [titled(part, f"constant rate {RATES[part.kinds[0][0]]}", costs(part)) for part in study.by_kind]
    made = stands_on(study.cells, study.checkpoint, halved(study)), verdicts(study)
    return {"misrouting.md": [*tables, *made, stands_on(study.cells, "last", crossed(study))]}
