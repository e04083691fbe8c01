"""Performance on validation batches against steps: averaged as in the paper, by family, by kind and R."""

import pandas as pd

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, Study, curves, means, register_figure
from modtf.analysis.figures.rows import performance
from modtf.analysis.performance import IN

SAID = "on validation batches, at the steps that all averaged cells share"


@register_figure("training_curves")
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture averaged over all but the setting, one by family, then one per width by kind and R."""
    rows = performance(study.history)
    rows = rows[rows["distribution"] == IN]
    parts: list[tuple[str | None, str, str, str, pd.DataFrame]] = []
    parts += [(None, "where", "", ", averaged", comparable(rows, ["where"]))]
    if rows["family"].nunique() > 1:
        parts += [("family", "where", "_by_family", " by family", comparable(rows, ["family", "where"]))]
    for width, part in rows.groupby("width"):
        parts += [("panel", "num_rules", f"_e{width}", f", width {width}", part)]
    parts = [found for found in parts if found[-1]["step"].nunique() > 1]
    if not parts:
        raise NothingToDraw("no cells share a step beyond the first")
    for row, column, suffix, words, part in parts:
        name, title = f"training_curves{suffix}", f"Training curves{words}"
        yield means(study, part, curves, "step", name, title, SAID, row=row, column=column)


def comparable(rows: pd.DataFrame, panel: list[str]) -> pd.DataFrame:
    """The steps that all cells of a panel share: a curve must not bend because a cell ends."""
    cells = rows.groupby(panel, observed=True)["folder"].transform("nunique")
    return rows[rows.groupby([*panel, "step"], observed=True)["folder"].transform("nunique") == cells]
