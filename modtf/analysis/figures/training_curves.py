"""Performance on validation batches against steps, averaged as in the paper, and by kind, R and width."""

from collections.abc import Iterator

import pandas as pd

from modtf.analysis.figures.averages import average
from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.marks import curves
from modtf.analysis.figures.panels import panels
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import performance, with_measure
from modtf.analysis.performance import IN
from modtf.analysis.study import Study


@register_figure("training_curves")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture averaged over everything but the setting, one by kind, then one per width by kind and R."""
    if study.history.empty:
        raise NothingToDraw("no finished cell has a history of its training")
    rows = performance(study.history)
    rows = rows[rows["distribution"] == IN]
    rows["column"] = with_measure(rows, "setting")
    yield _picture(study, comparable(rows, ["column"]), None, "column", "", ", averaged")
    if rows["family"].nunique() > 1:
        yield _picture(
            study, comparable(rows, ["family", "column"]), "family", "column", "_by_kind", " by kind"
        )
    for width, part in rows.groupby("width"):
        yield _picture(study, part, "panel", "num_rules", f"_e{width}", f", width {width}")


def _picture(
    study: Study, rows: pd.DataFrame, row: str | None, column: str, suffix: str, words: str
) -> Picture:
    by = [*([row] if row else []), column, "measure", "step", "variant"]
    table, note = average(study, rows, by, "on validation batches")
    return panels(
        curves("step"),
        table,
        name=f"training_curves{suffix}",
        title=f"Training curves{words}",
        note=note.replace(f"; checkpoint {study.checkpoint}", ""),
        row=row,
        column=column,
        x_label="Steps",
    )


def comparable(rows: pd.DataFrame, panel: list[str]) -> pd.DataFrame:
    """The steps that all cells of a panel share: a curve must not bend because a cell ends."""
    cells = rows.groupby(panel, observed=True)["folder"].transform("nunique")
    return rows[rows.groupby([*panel, "step"], observed=True)["folder"].transform("nunique") == cells]
