"""Collapse and specialisation against the number of rules, with random activation; one figure per width."""

from collections.abc import Iterator

import pandas as pd

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.lines import bounded_axis, draw_lines
from modtf.analysis.figures.notes import lacks, note, points_lack
from modtf.analysis.figures.panels import add_legend, make_grid
from modtf.analysis.figures.style import kinds_in, variants_in, with_labels
from modtf.metrics import activation_measures
from modtf.results import CELL, VARIANTS, Study, random_baseline, summarise

MEASURED = tuple(name for name in VARIANTS if name != "monolithic")  # one module cannot collapse


def measured_rows(study: Study) -> pd.DataFrame:
    """The rows of the measures of activation, without the monolithic model.

    Raises:
        NothingToDraw: if there are none.
    """
    names = [measure.name for measure in activation_measures()]
    rows = study.results[study.results["measure"].isin(names) & (study.results["variant"] != "monolithic")]
    if rows.empty:
        raise NothingToDraw("no variant with several modules was run")
    return rows


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per width."""
    summary = summarise(
        measured_rows(study), [*CELL, "measure", "seq_len", "scale"], bootstrap=study.bootstrap
    )
    known = {measure.name: measure for measure in activation_measures()}
    for width, part in with_labels(summary).groupby("width"):
        kinds, variants = kinds_in(part), variants_in(part)
        names = [name for name in known if name in set(part["measure"])]
        lacking = lacks(part, MEASURED) + points_lack(part, ["kind", "measure"], "num_rules", "R")
        text = note(
            study, part, f"width {width}", "0 is perfect; random: modules picked at random", lacking=lacking
        )
        title = f"Collapse and specialisation against number of rules (width {width})"
        labels = [known[name].axis_label for name in names]
        grid = make_grid(
            kinds, labels, title, text, panel=(2.0, 1.7), x_label="Number of rules R", gaps=(0.4, 0.35)
        )
        random = random_baseline(part["num_rules"])
        shown = [*variants, "random"]
        for column, name in enumerate(names):
            one = type(grid)(grid.figure, grid.axes[:, column : column + 1])
            chosen = (("kind", kinds), ("measure", [name]))
            axis = bounded_axis(*known[name].range)
            draw_lines(one, part, *chosen, "num_rules", variants, axis, random)
        add_legend(grid.figure, shown)
        name = f"collapse_and_specialisation_vs_num_rules_e{width}"
        yield Picture(name, title, text, grid.figure, part.drop(columns=["family", "kind"]))
