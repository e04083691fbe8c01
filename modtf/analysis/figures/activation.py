"""Activation matrices as heat maps, of rules by modules."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from modtf.analysis.figures.layout import Look, panels, values_of, wrapped
from modtf.analysis.figures.registry import SPECIALISES, TRAINING, Choice, register_figure
from modtf.analysis.labels import kind_label, place_label
from modtf.analysis.trained import TrainedModels
from modtf.metrics import alignment, best_permutation
from modtf.pages.pictures import GREY, HEAT, NothingToDraw, Picture, Pictures
from modtf.results import Activations

UNEQUAL = "rule_probability"  # a column of matrices whose rules are unequally frequent
MOST_NAMES = 64  # the largest number of rules' names that fit beside a matrix
APART = 1.15  # distance of neighbouring matrices, in widths
NUM_STEPS = 6
Shown = list[tuple[str, Activations, int]]  # variant, matrices of its cell, index of the member to show


def as_table(
    values: NDArray[np.float64],
    names: Sequence[str] | None = None,
    rule_probs: Sequence[float] | None = None,
    **columns: Any,
) -> pd.DataFrame:
    """Return a matrix [R, M] as a row per rule, by its number or name, and module, for `heat_maps`.

    If rules are unequally frequent, their frequencies are a further column.
    """
    rule, module = (index.ravel() for index in np.indices(values.shape))
    rules = rule if names is None else pd.Categorical.from_codes(rule, list(names))
    if rule_probs is not None:
        columns[UNEQUAL] = np.asarray(rule_probs)[rule]
    return pd.DataFrame({"rule": rules, "module": module, "probability": values.ravel(), **columns})


def heat_maps(
    tables: list[pd.DataFrame], name: str, title: str, note: str, row: str | None, column: str,
    size: tuple[float, float] = (1.9, 1.75),
) -> Picture:  # fmt: skip
    """Draw matrices with a colour bar, from tables of `as_table`, like `panels`.

    The matrices of a row share one panel and the names of their rules; a panel for each would take six times
    as long."""
    table = pd.concat(tables, ignore_index=True)
    values = values_of(table[column])
    titles = [wrapped(column, value, 10.5 * size[0]) for value in values]
    mark = partial(_row, column=column, titles=dict(zip(values, titles, strict=True)))
    picture = panels(mark, table, name, title, note, row, None, (size[0] * len(values), size[1]))
    (body,) = picture.figure.subfigs
    colours = ScalarMappable(Normalize(0, 1), HEAT)
    body.colorbar(colours, ax=body.axes, label="p(module | rule)", aspect=30, fraction=0.04)
    return picture


def _row(
    axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], column: str, titles: Mapping[Any, str]
) -> None:
    """Draw heat maps side by side: rules downwards, modules to the right, below each its alignment."""
    rules = list(data["rule"].unique())  # pandas would sort names: rule_10 before rule_2
    place, below = axes.get_subplotspec(), []
    for number, (value, title) in enumerate(titles.items()):
        middle, part = number * APART + 0.5, data[data[column] == value]
        if place is None or place.is_first_row():
            axes.text(middle, -0.06, title, ha="center", va="bottom", size=9.5)
        if part.empty:
            axes.text(middle, 0.5, "not run", ha="center", va="center", color=GREY)
            below.append("")
            continue
        matrix = part.pivot(index="rule", columns="module", values="probability").reindex(rules)
        around = (middle - 0.5, middle + 0.5, 1, 0)
        axes.imshow(matrix, HEAT, vmin=0, vmax=1, interpolation="nearest", extent=around)
        axes.add_patch(Rectangle((middle - 0.5, 0), 1, 1, fill=False, edgecolor="#999999", linewidth=0.8))
        probs = part.groupby("rule", observed=True)[UNEQUAL].first()[rules] if UNEQUAL in part else None
        below.append(f"alignment {alignment(matrix, probs):.2f}")
    axes.set_xticks([number * APART + 0.5 for number in range(len(below))], below, size=8.8)
    count = len(rules)
    every = 1 if count <= 8 else count - 1  # label only the ends of long number axes
    every = every if is_numeric_dtype(data["rule"].dtype) else math.ceil(count / MOST_NAMES)
    shown = range(0, count, every)
    axes.set_yticks([(rule + 0.5) / count for rule in shown], [str(rules[rule]) for rule in shown], size=7)
    axes.tick_params(length=0)
    axes.set(xlim=(-0.01, (len(below) - 1) * APART + 1.01), ylim=(1.01, -0.01), aspect="auto", ylabel="")
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)


def chosen_activations(study: TrainedModels, choice: Choice) -> Iterator[tuple[str, Shown]]:
    """Yield the activations of each width, by task type and routed layer, in the order of R and variants.

    Raises `NothingToDraw` if no finished cell with several modules has that width and member.
    """
    widths = study.results.loc[study.results["num_modules"] > 1, "width"].unique().tolist()
    if not widths:
        raise NothingToDraw("no variant with several modules was run; --variant=modular has them")
    any_drawn = False
    widths = sorted(widths) if choice.width is None else [choice.width]
    places = [(kind, place) for kind in study.kinds for place in changed_places(study.part(*kind))]
    for width, (kind, place) in product(widths, places):
        models = _models(study.part(*kind).activations(place, width=width), choice)
        models.sort(key=lambda model: (model[1].cell["num_rules"], study.variants.index(model[0])))
        if models:
            any_drawn = True
            yield place_label(kind_label(*kind), place), models
    if not any_drawn:
        asked = {"width": choice.width, "task": choice.data_seed, "seed": choice.seed}
        words = [f"{name} {value}" for name, value in asked.items() if value is not None]
        raise NothingToDraw(
            f"no finished cell has finite activation matrices of {', '.join(words) or 'any model'}; choose "
            "other models by --width, --data_seed and --seed"
        )


def _models(cells: Iterable[Activations], choice: Choice) -> Shown:
    """Return a member of each variant and R with several modules; the first that did not diverge.

    The members of a variant may lie in several folders."""
    models: dict[tuple[str, int], tuple[tuple[int, int], tuple[str, Activations, int]]] = {}
    for cell in cells:
        members = zip(cell.data_seeds.tolist(), cell.seeds.tolist(), strict=True)
        finite = [bool(np.isfinite(matrix).all()) for matrix in cell.last]
        wanted = [
            member
            for member, is_finite in zip(members, finite, strict=True)
            if is_finite and choice.data_seed in (None, member[0]) and choice.seed in (None, member[1])
        ]
        name, key = cell.cell["variant"], (cell.cell["variant"], cell.cell["num_rules"])
        if wanted and cell.last.shape[-1] > 1 and (key not in models or min(wanted) < models[key][0]):
            models[key] = min(wanted), (name, cell, cell.index(*min(wanted)) or 0)
    return [model for _, model in models.values()]


def changed_places(study: TrainedModels) -> list[str]:
    """Return a task type's routed layers; if there are several, those where training changed some routing.

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


def note_of(models: Shown) -> str:
    """Return a text that names the shown models."""
    members = {(int(a.data_seeds[member]), int(a.seeds[member])) for _, a, member in models}
    names = " and ".join(f"task {task}, seed {seed}" for task, seed in sorted(members))
    return f"One model per matrix: {names}; width {_width(models)}. Rows: rules; columns: modules"


def _width(models: Shown) -> int:
    return int(models[0][1].cell["width"])


def _file_name(text: str) -> str:
    return text.replace(",", "").replace(" ", "_")


@register_figure(
    "activation",
    question=SPECIALISES,
    shows="The probability of each module given each rule, for one model of each variant. "
    "A diagonal is perfect specialisation.",
)
def at_the_end(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture per task type and width."""
    for kind, models in chosen_activations(study, choice):
        tables = []
        for variant, activations, member in models:
            values = activations.at(study.checkpoint)[member]
            columns = {"num_rules": activations.cell["num_rules"], "variant": variant}
            probs = activations.rule_probs
            ordered = values[:, best_permutation(values, probs)]
            tables.append(as_table(ordered, activations.rule_names, probs, **columns))
        name = _file_name(f"activation_{kind}_e{_width(models)}")
        note = (
            f"{note_of(models)}. Modules are ordered by their best match with rules. Checkpoint "
            f"{study.checkpoint}."
        )
        title = f"Activation matrices, {kind}, width {_width(models)}"
        yield heat_maps(tables, name, title, note, "num_rules", "variant", (2.1, 1.9))


@register_figure(
    "activation_evolution",
    question=TRAINING,
    shows="The probability of each module given each rule during training.",
)
def in_training(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture per task type and width."""
    any_drawn = False
    for kind, models in chosen_activations(study, choice):
        rules = sorted({activations.cell["num_rules"] for _, activations, _ in models})
        num_rules = choice.num_rules or rules[len(rules) // 2]
        models = _with_history(models, num_rules, learned_first=bool(models[0][1].place))
        if not models:
            continue
        any_drawn = True
        name = _file_name(f"activation_evolution_{kind}_r{num_rules}_e{_width(models)}")
        note = f"{note_of(models)}. Modules are ordered by their best match with rules at the last step."
        title = f"Activation in training, {kind}, R = {num_rules}, width {_width(models)}"
        yield heat_maps(_by_step(models), name, title, note, "variant", "step", (1.55, 1.6))
    if not any_drawn:
        rules_asked = "" if choice.num_rules is None else f" of R = {choice.num_rules}"
        raise NothingToDraw(
            f"no finished cell has a history of activation matrices{rules_asked}; training writes one at "
            "every evaluation (--set training.evaluations=10), and --rules chooses R"
        )


def _with_history(models: Shown, num_rules: int, learned_first: bool) -> Shown:
    """Return the models with R rules that were evaluated in training.

    `learned_first` leaves out models with fixed routing, which does not evolve, unless there are no others.
    """
    evaluated = [one for one in models if one[1].cell["num_rules"] == num_rules and len(one[1].steps)]
    return (learned_first and [one for one in evaluated if _changed(one[1])]) or evaluated


def _by_step(models: Shown) -> list[pd.DataFrame]:
    """Return a table per model and step, for at most `NUM_STEPS` steps of the longest history."""
    longest = max((activations.steps for _, activations, _ in models), key=len)
    steps = longest[np.unique(np.linspace(0, len(longest) - 1, NUM_STEPS).round().astype(int))]
    tables = []
    for variant, activations, member in models:
        probs = activations.rule_probs
        order = best_permutation(activations.history[-1, member], probs)
        for step in steps[np.isin(steps, activations.steps)]:
            values = activations.history[activations.steps == step][0, member]
            columns = {"variant": variant, "step": int(step)}
            tables.append(as_table(values[:, order], activations.rule_names, probs, **columns))
    return tables
