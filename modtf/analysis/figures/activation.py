"""Activation matrices of one member, by number of rules and variant; one figure per kind."""

from modtf.analysis.figures import Choice, Pictures, Study, register_figure
from modtf.analysis.figures.matrices import as_table, chosen_activations, heat_maps, shown
from modtf.metrics import best_permutation


@register_figure("activation")
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture per kind."""
    for kind, found in chosen_activations(study, choice).items():
        tables = []
        for variant, activations, place in found:
            values = activations.at(study.checkpoint)[place]
            columns = {"num_rules": activations.cell["num_rules"], "variant": variant}
            tables.append(as_table(values[:, best_permutation(values)], **columns))
        name = f"activation_{kind}_e{found[0][1].cell['width']}".replace(" ", "_")
        note = f"{shown(found)}, in the order that matches them to rules. Checkpoint {study.checkpoint}."
        title = f"Activation matrices, {kind}"
        yield heat_maps(tables, name, title, note, "num_rules", "variant", (2.1, 1.9))
