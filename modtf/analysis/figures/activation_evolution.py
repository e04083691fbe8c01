"""How the activation matrices of one member change in training; one figure per kind."""

from collections.abc import Iterator

import numpy as np

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.matrices import as_table, chosen_activations, heat_maps, shown
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.study import Study
from modtf.metrics import best_permutation

NUM_STEPS = 6


@register_figure("activation_evolution")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per kind."""
    every = chosen_activations(study, choice)
    rules = sorted({activations.cell["num_rules"] for found in every.values() for _, activations, _ in found})
    num_rules = choice.num_rules or rules[len(rules) // 2]
    drawn = 0
    for kind, found in every.items():
        part = {v: (a, i) for v, a, i in found if a.cell["num_rules"] == num_rules and len(a.steps)}
        if not part:
            continue
        drawn += 1
        longest = max((activations.steps for activations, _ in part.values()), key=len)
        steps = longest[np.unique(np.linspace(0, len(longest) - 1, NUM_STEPS).round().astype(int))]
        tables = []
        for variant, (activations, place) in part.items():
            order = best_permutation(activations.history[-1, place])
            for step in steps[np.isin(steps, activations.steps)]:
                values = activations.history[activations.steps == step][0, place]
                tables.append(as_table(values[:, order], variant=variant, step=f"step {step:,}"))
        width = activations.cell["width"]
        yield heat_maps(
            tables,
            name=f"activation_evolution_{kind.replace(' ', '_')}_r{num_rules}_e{width}",
            title=f"Activation in training, {kind}, R = {num_rules}",
            note=f"{shown(activations, place)}. Rows: rules; columns: modules, in the order that "
            "matches them to rules at the last step.",
            row="variant",
            column="step",
            size=(1.6, 1.5),
        )
    if not drawn:
        raise NothingToDraw(f"no finished cell has a history of activation matrices (R = {num_rules})")
