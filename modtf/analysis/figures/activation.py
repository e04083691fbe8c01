"""Activation matrices of one member, by number of rules and variant; one figure per kind."""

from collections.abc import Iterator

import pandas as pd

from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.heatmaps import (
    add_colour_bar,
    as_table,
    chosen_activations,
    draw_matrix,
    member_words,
)
from modtf.analysis.figures.panels import empty_panel, make_grid
from modtf.analysis.figures.specialisation_lines import MEASURED
from modtf.analysis.figures.style import in_order
from modtf.metrics import alignment, best_permutation
from modtf.results import Study


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per architecture and setting."""
    found = chosen_activations(study, choice)
    kinds = list(dict.fromkeys((a.cell["arch"], a.cell["search"], a.cell["setting"]) for a, _ in found))
    for kind in kinds:
        part = [(a, i) for a, i in found if (a.cell["arch"], a.cell["search"], a.cell["setting"]) == kind]
        rules = sorted({a.cell["num_rules"] for a, _ in part})
        variants = in_order((a.cell["variant"] for a, _ in part), MEASURED)
        width = part[0][0].cell["width"]
        text = (
            f"One model per matrix ({member_words(part)}; width {width}; checkpoint {study.checkpoint}). "
            "Rows: rules; columns: modules, in the order in which the Hungarian algorithm matches them to "
            "rules."
        )
        name = " ".join(filter(None, kind))
        title = f"Activation matrices, {name}"
        grid = make_grid(
            [f"R = {r}" for r in rules],
            variants,
            title,
            text,
            panel=(1.75, 1.75),
            legend=False,
            gaps=(0.5, 0.45),
            left=0.95,
        )
        cells = {(a.cell["num_rules"], a.cell["variant"]): (a, i) for a, i in part}
        tables = []
        for r, num_rules in enumerate(rules):
            for c, variant in enumerate(variants):
                axes = grid.panel(r, c)
                if (num_rules, variant) not in cells:
                    empty_panel(axes)
                    continue
                activations, index = cells[num_rules, variant]
                matrix = (activations.last if study.checkpoint == "last" else activations.best)[index]
                matrix = matrix[:, best_permutation(matrix)]
                draw_matrix(axes, matrix)
                axes.set_xlabel(f"alignment {alignment(matrix):.2f}", size=7.5, labelpad=3)
                tables.append(as_table(matrix, num_rules=num_rules, width=width, variant=variant))
        add_colour_bar(grid.figure)
        yield Picture(
            f"activation_{'_'.join(filter(None, kind))}_e{width}", title, text, grid.figure, pd.concat(tables)
        )
