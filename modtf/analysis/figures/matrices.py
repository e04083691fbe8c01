"""Which activation matrices are drawn, and heat maps of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.panels import panels
from modtf.analysis.figures.style import Look
from modtf.analysis.labels import kind_label
from modtf.analysis.study import Study
from modtf.metrics import alignment
from modtf.results import KIND, Activations

COLOURS = "cividis"  # even in brightness for any colour vision


def chosen_activations(study: Study, choice: Choice) -> dict[str, list[tuple[str, Activations, int]]]:
    """(variant, activations, place of the member to show) of the cells of one width, by kind.

    Raises:
        NothingToDraw: if no finished cell of several modules has that width and member.
    """
    widths = study.results.loc[study.results["num_modules"] > 1, "width"]
    if widths.empty:
        raise NothingToDraw("no variant with several modules was run")
    width = choice.width or int(widths.min())
    found: dict[str, list[tuple[str, Activations, int]]] = {kind_label(*kind): [] for kind in study.kinds}
    for activations in study.activations(width=width):
        cell, place = activations.cell, _member(activations, choice)
        if place is not None and activations.last.shape[-1] > 1:
            found[kind_label(*(cell[name] for name in KIND))].append((cell["variant"], activations, place))
    for part in found.values():
        part.sort(key=lambda one: (one[1].cell["num_rules"], study.variants.index(one[0])))
    if not any(found.values()):
        raise NothingToDraw(
            f"no finished cell has activation matrices of width {width}, task {choice.data_seed}, seed "
            f"{choice.seed}"
        )
    return {kind: part for kind, part in found.items() if part}


def _member(activations: Activations, choice: Choice) -> int | None:
    members = sorted(zip(activations.data_seeds.tolist(), activations.seeds.tolist(), strict=True))
    wanted = [
        (data_seed, seed)
        for data_seed, seed in members
        if choice.data_seed in (None, data_seed) and choice.seed in (None, seed)
    ]
    return activations.index(*wanted[0]) if wanted else None


def shown(activations: Activations, place: int) -> str:
    """Which model is shown."""
    cell, task, seed = activations.cell, activations.data_seeds[place], activations.seeds[place]
    return f"One model per matrix: task {task}, seed {seed}, width {cell['width']}"


def as_table(values: NDArray[np.float64], **columns: Any) -> pd.DataFrame:
    """A matrix [R, M] as a row per rule and module, for `heat_maps`."""
    rule, module = np.indices(values.shape)
    table = pd.DataFrame({"rule": rule.ravel(), "module": module.ravel(), "probability": values.ravel()})
    return table.assign(**columns)


def heat_maps(tables: list[pd.DataFrame], **layout: Any) -> Picture:
    """A picture of matrices; `layout` as in `panels`."""
    picture = panels(heat_map, pd.concat(tables, ignore_index=True), **layout)
    (body,) = picture.figure.subfigs
    colours = ScalarMappable(Normalize(0, 1), COLOURS)
    body.colorbar(colours, ax=body.axes, label="p(module | rule)", aspect=30, fraction=0.04)
    return picture


def heat_map(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Rules downwards, modules to the right."""
    values = data.pivot(index="rule", columns="module", values="probability")
    every = [max(1, (size - 1)) if size > 8 else 1 for size in values.shape]
    seaborn.heatmap(
        values, vmin=0, vmax=1, cmap=COLOURS, cbar=False, ax=axes, yticklabels=every[0], xticklabels=every[1]
    )
    axes.tick_params(labelsize=7, length=2, rotation=0)
    axes.set(xlabel=f"alignment {alignment(values):.2f}", ylabel="")
