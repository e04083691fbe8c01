"""How the activation matrices of one member change in training; one figure per kind."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
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
from modtf.metrics import best_permutation
from modtf.results import Study

NUM_STEPS = 6


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per architecture and setting."""
    found = [(a, i) for a, i in chosen_activations(study, choice) if len(a.steps)]
    rules = sorted({a.cell["num_rules"] for a, _ in found})
    num_rules = choice.num_rules or (rules[len(rules) // 2] if rules else None)
    found = [(a, i) for a, i in found if a.cell["num_rules"] == num_rules]
    if not found:
        raise NothingToDraw(f"no finished cell has a history of activation matrices (R = {num_rules})")
    for kind in dict.fromkeys((a.cell["arch"], a.cell["search"], a.cell["setting"]) for a, _ in found):
        part = {
            a.cell["variant"]: (a, i)
            for a, i in found
            if (a.cell["arch"], a.cell["search"], a.cell["setting"]) == kind
        }
        variants = in_order(part, MEASURED)
        longest = max((a.steps for a, _ in part.values()), key=len)
        steps = longest[np.unique(np.linspace(0, len(longest) - 1, NUM_STEPS).round().astype(int))]
        width = next(iter(part.values()))[0].cell["width"]
        text = (
            f"One model per row ({member_words(list(part.values()))}; R = {num_rules}; width {width}). "
            "Rows: rules; columns: modules, put in the order that matches them to rules at the last step."
        )
        title = f"Activation in training, {' '.join(filter(None, kind))}"
        columns = [f"step {step:,}" for step in steps]
        grid = make_grid(
            variants, columns, title, text, panel=(1.2, 1.2), legend=False, gaps=(0.28, 0.3), left=1.3
        )
        tables = []
        for r, variant in enumerate(variants):
            activations, index = part[variant]
            order = best_permutation(activations.history[-1, index])
            for c, step in enumerate(steps):
                place = np.flatnonzero(activations.steps == step)
                if not place.size:
                    empty_panel(grid.panel(r, c), "not evaluated")
                    continue
                matrix = activations.history[place[0], index][:, order]
                draw_matrix(grid.panel(r, c), matrix, ticks=c == 0)
                tables.append(as_table(matrix, variant=variant, step=int(step)))
        add_colour_bar(grid.figure)
        name = f"activation_evolution_{'_'.join(filter(None, kind))}_r{num_rules}_e{width}"
        yield Picture(name, title, text, grid.figure, pd.concat(tables))
