"""Who wins: the shares of the votes, overall and by architecture and setting."""

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.panels import add_legend, empty_panel, make_grid
from modtf.analysis.figures.style import colour, kinds_in, variants_in, with_labels
from modtf.results import VARIANTS, Study, rank, votes
from modtf.analysis.performance import IN, OUT

FIELDS = {"all four": VARIANTS, "modular against monolithic": ("monolithic", "modular")}
RULE = (
    "Every task of every cell, its seeds averaged, gives one vote to the variant with the smallest loss "
    "(regression) or error (classification)"
)
OVERALL = "overall"


def shares(study: Study) -> pd.DataFrame:
    """field, condition, kind ("overall" first), variant, share, low, high, num_votes.

    Raises:
        NothingToDraw: if no task was run with all candidates of any field.
    """
    tables = []
    for field, candidates in FIELDS.items():
        cast = votes(study.performance, candidates)
        if cast.empty:
            continue
        cast = with_labels(cast)
        overall = rank(cast, ["condition"], study.bootstrap).assign(kind=OVERALL)
        by_kind = rank(cast, ["condition", "kind"], study.bootstrap)
        tables.append(pd.concat([overall, by_kind]).assign(field=field))
    if not tables:
        raise NothingToDraw(
            "no task was run with both modular and monolithic, so there is nothing to vote on"
        )
    table = pd.concat(tables, ignore_index=True)
    return table[["field", "condition", "kind", "variant", "share", "low", "high", "num_votes"]]


def ranking_note(study: Study, table: pd.DataFrame) -> str:
    """How votes are given, by how many models, and what could not vote."""
    rows = study.performance
    models = len(rows[["folder", "data_seed", "seed"]].drop_duplicates())
    text = f"{RULE}; {models} models; ties are shared; checkpoint {study.checkpoint}; "
    text += "out of distribution: inputs x 2, sequences of 30 tokens."
    absent = [field for field in FIELDS if field not in set(table["field"])]
    tasks = rows.drop_duplicates(
        ["arch", "setting", "search", "num_rules", "width", "data_seed", "condition"]
    )
    most = table[(table["kind"] == OVERALL) & (table["field"] == table["field"].iloc[0])]
    voted = int(most.groupby("condition")["num_votes"].first().sum())
    lacking = [f"no task has all candidates of '{field}'" for field in absent]
    if not absent and voted < len(tasks):
        lacking.append(f"{len(tasks) - voted} of {len(tasks)} votes lack a variant and are left out")
    return text + (f" Incomplete: {'; '.join(lacking)}." if lacking else "")


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture: bars of shares, four panels."""
    table = shares(study)
    text = ranking_note(study, table)
    fields = [field for field in FIELDS if field in set(table["field"])]
    conditions = [c for c in (IN, OUT) if c in set(table["condition"])]
    kinds = [OVERALL, *kinds_in(table[table["kind"] != OVERALL])]
    height = 0.3 + 0.3 * len(kinds)
    grid = make_grid(
        ["" for _ in fields],
        conditions,
        "Ranking",
        text,
        panel=(3.6, height),
        left=1.75,
        right=0.65,
        gaps=(0.75, 0.6),
    )
    for r, field in enumerate(fields):
        for c, condition in enumerate(conditions):
            chosen = table[(table["field"] == field) & (table["condition"] == condition)]
            _stacked(grid.panel(r, c), chosen, kinds, labelled=c == 0)
            grid.panel(r, c).set_title(f"{field}, {condition}", size=9.5)
    add_legend(grid.figure, variants_in(table), bars=True)
    yield Picture("ranking", "Ranking", text, grid.figure, table.replace("\n", " ", regex=True))


def _stacked(axes: Axes, table: pd.DataFrame, kinds: Sequence[str], labelled: bool) -> None:
    if table.empty:
        empty_panel(axes)
        return
    variants = variants_in(table)
    for place, kind in enumerate(kinds):
        row = table[table["kind"] == kind].set_index("variant")
        y = len(kinds) - 1 - place
        if row.empty:
            axes.text(0.5, y, "not run", ha="center", va="center", size=8)
            continue
        start = 0.0
        for name in variants:
            share = float(row["share"].get(name, 0.0))
            axes.barh(y, share, left=start, color=colour(name, variants), height=0.72, edgecolor="white")
            if share >= 0.09:
                axes.text(
                    start + share / 2, y, f"{share:.0%}", ha="center", va="center", size=8, color="white"
                )
            start += share
        axes.text(1.015, y, f"n = {int(row['num_votes'].iloc[0])}", va="center", size=7.5)
    labels = [kind.replace("\n", " ") for kind in reversed(kinds)]
    axes.set_yticks(range(len(kinds)), labels if labelled else [""] * len(kinds), size=8.5)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25%", "50%", "75%", "100%"])
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.6, len(kinds) - 0.4)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
