"""Which activation matrices are drawn, and heat maps of them."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.layout import panels
from modtf.analysis.figures.style import Look
from modtf.analysis.labels import kind_label
from modtf.analysis.study import Study
from modtf.metrics import alignment
from modtf.results import KIND, Activations

COLOURS = "cividis"  # even in brightness for any colour vision
NAMES = (64, 32)  # of rows and of columns that a matrix has room for
Found = list[tuple[str, Activations, int]]  # variant, matrices of its cell, place of the member to show


def chosen_activations(study: Study, choice: Choice) -> dict[str, Found]:
    """The activations of one width by kind, in the order of R and variants.

    Raises:
        NothingToDraw: if no finished cell of several modules has that width and member.
    """
    widths = study.results.loc[study.results["num_modules"] > 1, "width"]
    if widths.empty:
        raise NothingToDraw("no variant with several modules was run")
    width = choice.width or int(widths.min())
    found: dict[str, Found] = {kind_label(*kind): [] for kind in study.kinds}
    for activations in study.activations(width=width):
        members = zip(activations.data_seeds.tolist(), activations.seeds.tolist(), strict=True)
        wanted = [m for m in members if choice.data_seed in (None, m[0]) and choice.seed in (None, m[1])]
        if wanted and activations.last.shape[-1] > 1:
            one = (activations.cell["variant"], activations, activations.index(*min(wanted)) or 0)
            found[kind_label(*(activations.cell[name] for name in KIND))].append(one)
    if not any(found.values()):
        words = f"width {width}, task {choice.data_seed}, seed {choice.seed}"
        raise NothingToDraw(f"no finished cell has activation matrices of {words}")
    for part in found.values():
        part.sort(key=lambda one: (one[1].cell["num_rules"], study.variants.index(one[0])))
    return {kind: part for kind, part in found.items() if part}


def shown(found: Found) -> str:
    """Which models are shown."""
    members = {(int(a.data_seeds[place]), int(a.seeds[place])) for _, a, place in found}
    said = " and ".join(f"task {task}, seed {seed}" for task, seed in sorted(members))
    return f"One model per matrix: {said}; width {found[0][1].cell['width']}. Rows: rules; columns: modules"


def as_table(values: NDArray[np.float64], **columns: Any) -> pd.DataFrame:
    """A matrix [R, M] as a row per rule and module, for `heat_maps`."""
    rule, module = np.indices(values.shape)
    table = pd.DataFrame({"rule": rule.ravel(), "module": module.ravel(), "probability": values.ravel()})
    return table.assign(**columns)


def heat_maps(tables: list[pd.DataFrame], *drawn: Any, rows: str = "rule", largest: float = 1.0) -> Picture:
    """A picture of matrices with a colour bar.

    Args:
        tables: from `as_table`. `rule` and `module` may be categories, shown by their names and in their
            order; a column `said` is written below a matrix instead of its alignment.
        *drawn: as in `panels`.
        rows: what a reader calls the rows.
        largest: probability that has the last colour.
    """
    picture = panels(partial(heat_map, largest=largest), pd.concat(tables, ignore_index=True), *drawn)
    (body,) = picture.figure.subfigs
    colours = ScalarMappable(Normalize(0, largest), COLOURS)
    body.colorbar(colours, ax=body.axes, label=f"p(module | {rows})", aspect=30, fraction=0.04)
    return picture


def heat_map(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], largest: float = 1.0) -> None:
    """Rules downwards, modules to the right."""
    values = data.pivot(index="rule", columns="module", values="probability")
    axes.imshow(
        values,
        COLOURS,
        vmin=0,
        vmax=largest,
        interpolation="nearest",
        aspect="equal" if values.shape[0] == values.shape[1] else "auto",
    )
    for axis, index, most in zip((axes.yaxis, axes.xaxis), values.axes, NAMES, strict=True):
        places = range(0, len(index), _label_every(index, most))
        axis.set_ticks(places, [str(index[place]) for place in places])
    axes.grid(False)
    axes.set_anchor("W")
    axes.tick_params(labelsize=7, length=2, rotation=0)
    said = data["said"].iloc[0] if "said" in data else f"alignment {alignment(values):.2f}"
    axes.set(xlabel=said, ylabel="")


def _label_every(index: pd.Index, most: int) -> int:
    """How far apart labels stand: names as there is room for, of many numbers the ends."""
    if isinstance(index, pd.CategoricalIndex):
        return math.ceil(len(index) / most)
    return 1 if len(index) <= 8 else len(index) - 1
