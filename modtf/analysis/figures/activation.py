"""Activation matrices of one member, final and in training; a picture per task type and routed layer."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from modtf.analysis.figures.base import Choice, NothingToDraw, Pictures
from modtf.analysis.figures.matrices import as_table, heat_maps
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.labels import at_place, kind_label
from modtf.analysis.trained import TrainedModels
from modtf.metrics import best_permutation
from modtf.results import Activations

NUM_STEPS = 6
Found = list[tuple[str, Activations, int]]  # variant, matrices of its cell, index of the member to show


def chosen_activations(study: TrainedModels, choice: Choice) -> Iterator[tuple[str, Found]]:
    """Yield the activations of each width, by task type and routed layer, in the order of R and variants.

    Raises `NothingToDraw` if no finished cell with several modules has that width and member.
    """
    widths = study.results.loc[study.results["num_modules"] > 1, "width"].unique().tolist()
    if not widths:
        raise NothingToDraw("no variant with several modules was run; --variant=modular has them")
    drawn = 0
    widths = sorted(widths) if choice.width is None else [choice.width]
    for width, kind, place in product(widths, study.kinds, changed_places(study)):
        found: Found = []
        for one in study.of_kind(*kind).activations(place, width=width):
            members = zip(one.data_seeds.tolist(), one.seeds.tolist(), strict=True)
            wanted = [m for m in members if choice.data_seed in (None, m[0]) and choice.seed in (None, m[1])]
            if wanted and one.last.shape[-1] > 1:
                found.append((one.cell["variant"], one, one.index(*min(wanted)) or 0))
        found.sort(key=lambda one: (one[1].cell["num_rules"], study.variants.index(one[0])))
        drawn += len(found)
        if found:
            yield at_place(kind_label(*kind), place), found
    if not drawn:
        asked = {"width": choice.width, "task": choice.data_seed, "seed": choice.seed}
        words = [f"{name} {value}" for name, value in asked.items() if value is not None]
        raise NothingToDraw(
            f"no finished cell has activation matrices of {', '.join(words) or 'any model'}; "
            "choose others by --width, --data_seed and --seed"
        )


def changed_places(study: TrainedModels) -> list[str]:
    """Return the routed layers; if there are several, only those where training changed some model's routing.

    A picture of fixed routing shows nothing new. If all routing is fixed, all layers are returned.
    """
    places = study.places
    if len(places) == 1:
        return places
    learned = [place for place in places if any(map(_changed, study.activations(place)))]
    return learned or places


def _changed(activations: Activations) -> bool:
    """Return whether the matrices of some evaluation differ from those of the first."""
    history = activations.history
    return any(not np.array_equal(one, history[0], equal_nan=True) for one in history)


def shown(found: Found) -> str:
    """Return a text that names the shown models."""
    members = {(int(a.data_seeds[member]), int(a.seeds[member])) for _, a, member in found}
    said = " and ".join(f"task {task}, seed {seed}" for task, seed in sorted(members))
    return f"One model per matrix: {said}; width {found[0][1].cell['width']}. Rows: rules; columns: modules"


def _file_name(text: str) -> str:
    return text.replace(",", "").replace(" ", "_")


@register_figure("activation")
def at_the_end(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture per task type and width."""
    for kind, found in chosen_activations(study, choice):
        tables = []
        for variant, activations, member in found:
            values = activations.at(study.checkpoint)[member]
            columns = {"num_rules": activations.cell["num_rules"], "variant": variant}
            ordered = values[:, best_permutation(values)]
            tables.append(as_table(ordered, activations.rule_names, **columns))
        name = _file_name(f"activation_{kind}_e{found[0][1].cell['width']}")
        note = f"{shown(found)}, in the order that matches them to rules. Checkpoint {study.checkpoint}."
        title = f"Activation matrices, {kind}, width {found[0][1].cell['width']}"
        yield heat_maps(tables, name, title, note, "num_rules", "variant", (2.1, 1.9))


@register_figure("activation_evolution")
def in_training(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture per task type and width."""
    drawn = 0
    for kind, every in chosen_activations(study, choice):
        rules = sorted({one[1].cell["num_rules"] for one in every})
        num_rules = choice.num_rules or rules[len(rules) // 2]
        found = [one for one in every if one[1].cell["num_rules"] == num_rules and len(one[1].steps)]
        if len(study.places) > 1:  # leave out models with fixed routing: their routing does not evolve
            found = [one for one in found if _changed(one[1])] or found
        if not found:
            continue
        drawn += 1
        longest = max((activations.steps for _, activations, _ in found), key=len)
        steps = longest[np.unique(np.linspace(0, len(longest) - 1, NUM_STEPS).round().astype(int))]
        tables = []
        for variant, activations, member in found:
            order = best_permutation(activations.history[-1, member])
            for step in steps[np.isin(steps, activations.steps)]:
                values = activations.history[activations.steps == step][0, member]
                columns = {"variant": variant, "step": int(step)}
                tables.append(as_table(values[:, order], activations.rule_names, **columns))
        name = _file_name(f"activation_evolution_{kind}_r{num_rules}_e{found[0][1].cell['width']}")
        note = f"{shown(found)}, in the order that matches them to rules at the last step."
        title = f"Activation in training, {kind}, R = {num_rules}, width {found[0][1].cell['width']}"
        yield heat_maps(tables, name, title, note, "variant", "step", (1.6, 1.5))
    if not drawn:
        of = "" if choice.num_rules is None else f" of R = {choice.num_rules}"
        raise NothingToDraw(
            f"no finished cell has a history of activation matrices{of}; training "
            "writes one at every evaluation (--set training.evaluations=10), --rules chooses R"
        )
