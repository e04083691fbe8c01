"""How the activation matrices of one member change in training; one figure per kind."""

import numpy as np

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, Study, register_figure
from modtf.analysis.figures.matrices import as_table, chosen_activations, heat_maps, shown
from modtf.metrics import best_permutation

NUM_STEPS = 6


@register_figure("activation_evolution")
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture per kind."""
    chosen = chosen_activations(study, choice)
    rules = sorted({one[1].cell["num_rules"] for found in chosen.values() for one in found})
    num_rules = choice.num_rules or rules[len(rules) // 2]
    drawn = 0
    for kind, every in chosen.items():
        found = [one for one in every if one[1].cell["num_rules"] == num_rules and len(one[1].steps)]
        if not found:
            continue
        drawn += 1
        longest = max((activations.steps for _, activations, _ in found), key=len)
        steps = longest[np.unique(np.linspace(0, len(longest) - 1, NUM_STEPS).round().astype(int))]
        tables = []
        for variant, activations, place in found:
            order = best_permutation(activations.history[-1, place])
            for step in steps[np.isin(steps, activations.steps)]:
                values = activations.history[activations.steps == step][0, place]
                tables.append(as_table(values[:, order], variant=variant, step=int(step)))
        name = f"activation_evolution_{kind}_r{num_rules}_e{found[0][1].cell['width']}".replace(" ", "_")
        note = f"{shown(found)}, in the order that matches them to rules at the last step."
        title = f"Activation in training, {kind}, R = {num_rules}"
        yield heat_maps(tables, name, title, note, "variant", "step", (1.6, 1.5))
    if not drawn:
        raise NothingToDraw(f"no finished cell has a history of activation matrices (R = {num_rules})")
