"""Validation loss against steps: by cell, and averaged over cells as in the paper."""

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.lines import performance_axis
from modtf.analysis.figures.notes import averaged_over, lacks, note
from modtf.analysis.figures.panels import Grid, add_legend, empty_panel, make_grid
from modtf.analysis.figures.style import colour, kinds_in, variants_in, with_labels
from modtf.results import CELL, Study, summarise

SIZE = ["arch", "setting", "search", "num_rules", "width"]


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture of averages, then one per width by number of rules."""
    rows = study.history[study.history["measure"] == "loss"] if len(study.history) else study.history
    if rows.empty:
        raise NothingToDraw("no finished cell has a history of its training")
    yield from _averaged(study, rows)
    summary = with_labels(summarise(rows, [*CELL, "measure", "step"], bootstrap=study.bootstrap))
    for width, part in summary.groupby("width"):
        kinds, rules = kinds_in(part), sorted(part["num_rules"].unique())
        text = note(study, part, f"width {width}", "loss on validation batches", lacking=lacks(part))
        text = text.replace(f"; checkpoint {study.checkpoint}", "")
        title = f"Training curves (width {width})"
        columns = [f"R = {r}" for r in rules]
        grid = make_grid(kinds, columns, title, text, panel=(2.2, 1.7), x_label="Steps", gaps=(0.45, 0.45))
        _fill(grid, part, kinds, ("num_rules", rules))
        yield Picture(
            f"training_curves_e{width}", title, text, grid.figure, part.drop(columns=["family", "kind"])
        )


def _averaged(study: Study, rows: pd.DataFrame) -> Iterator[Picture]:
    """Over the cells of each kind that have all of its variants, and the steps that they share."""
    kept = comparable(rows)
    if kept.empty:
        return
    by = ["arch", "setting", "search", "variant", "measure", "step"]
    summary = with_labels(summarise(kept, by, ["num_rules", "width"], bootstrap=study.bootstrap))
    kinds = kinds_in(summary)
    families = list(dict.fromkeys(kind.split("\n")[0] for kind in kinds))
    settings = list(dict.fromkeys(kind.split("\n")[1] for kind in kinds))
    shared = with_labels(kept)
    rules, widths = averaged_over(shared, "num_rules"), averaged_over(shared, "width")
    said = f"each curve a mean over R = {rules} and width {widths}"
    lacking = lacks(summary)
    if len(kept) < len(rows):
        lacking.append("cells without all variants, and steps not evaluated in all cells, are left out")
    text = note(study, summary, said, "loss on validation batches", lacking=lacking)
    text = text.replace(f"; checkpoint {study.checkpoint}", "")
    title = "Training curves, averaged"
    grid = make_grid(families, settings, title, text, panel=(3.0, 1.9), x_label="Steps")
    _fill(grid, summary, families, ("setting", settings), row="family")
    yield Picture("training_curves", title, text, grid.figure, summary.drop(columns=["family", "kind"]))


def comparable(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of sizes that have all variants of their kind, at the steps that all such cells share."""
    kind = ["arch", "setting", "search"]
    wanted = rows.groupby(kind)["variant"].transform("nunique")
    rows = rows[rows.groupby(SIZE)["variant"].transform("nunique") == wanted]
    cells = rows.groupby(kind)["folder"].transform("nunique")
    return rows[rows.groupby([*kind, "step"])["folder"].transform("nunique") == cells]


def _fill(
    grid: Grid, summary: pd.DataFrame, rows: Sequence[str], columns: tuple[str, Sequence], row: str = "kind"
) -> None:
    variants = variants_in(summary)
    for r, row_value in enumerate(rows):
        for c, column in enumerate(columns[1]):
            data = summary[(summary[row] == row_value) & (summary[columns[0]] == column)]
            _curves(grid.panel(r, c), data, variants)
        grid.panel(r, 0).set_ylabel("Loss", size=8.5)
    add_legend(grid.figure, variants, markers=False)


def _curves(axes: Axes, data: pd.DataFrame, variants: list[str]) -> None:
    if data.empty:
        empty_panel(axes)
        return
    for name in variants_in(data):
        line = data[data["variant"] == name].sort_values("step")
        tint = colour(name, variants)
        marker = "o" if len(line) == 1 else ""
        axes.plot(line["step"], line["mean"], color=tint, linewidth=1.4, marker=marker)
        axes.fill_between(line["step"], line["low"], line["high"], color=tint, alpha=0.18, linewidth=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    axes.locator_params(axis="x", nbins=5)
    performance_axis(axes, data)
