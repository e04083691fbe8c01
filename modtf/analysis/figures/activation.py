"""Activation matrices of one member, by number of rules and variant; one figure per kind."""

from collections.abc import Iterator

from modtf.analysis.figures.base import Choice, Picture
from modtf.analysis.figures.matrices import as_table, chosen_activations, heat_maps, shown
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.study import Study
from modtf.metrics import best_permutation


@register_figure("activation")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per kind."""
    for kind, found in chosen_activations(study, choice).items():
        tables = []
        for variant, activations, place in found:
            values = activations.at(study.checkpoint)[place]
            values = values[:, best_permutation(values)]
            tables.append(as_table(values, num_rules=activations.cell["num_rules"], variant=variant))
        _, activations, place = found[0]
        yield heat_maps(
            tables,
            name=f"activation_{kind.replace(' ', '_')}_e{activations.cell['width']}",
            title=f"Activation matrices, {kind}",
            note=f"{shown(activations, place)}; checkpoint {study.checkpoint}. Rows: rules; columns: "
            "modules, in the order in which the Hungarian algorithm matches them to rules.",
            row="num_rules",
            column="variant",
            size=(2.1, 1.9),
        )
