"""Draws activation matrices, and chooses the members whose matrices are drawn."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from modtf.analysis.figures.base import Choice, NothingToDraw
from modtf.results import Activations, Study, load_activations

COLOUR_MAP = "cividis"  # even in brightness for any colour vision


def chosen_activations(study: Study, choice: Choice) -> list[tuple[Activations, int]]:
    """The activations of one width, each with the place of the member to show.

    Raises:
        NothingToDraw: if no finished cell of several modules has that width and member.
    """
    cells = [cell for cell in study.cells if cell.has_activation and cell.cell["variant"] != "monolithic"]
    cells = [cell for cell in cells if cell.is_finished]
    if not cells:
        raise NothingToDraw("no finished cell with several modules has activation matrices")
    width = choice.width or min(cell.cell["width"] for cell in cells)
    found = []
    for activations in load_activations(cells, width=width):
        index = _member(activations, choice)
        if index is not None:
            found.append((activations, index))
    if not found:
        wanted = f"width {width}, task {choice.data_seed}, seed {choice.seed}"
        raise NothingToDraw(f"no finished cell has activation matrices of {wanted}")
    return found


def _member(activations: Activations, choice: Choice) -> int | None:
    wanted = np.ones(len(activations.seeds), bool)
    if choice.data_seed is not None:
        wanted &= activations.data_seeds == choice.data_seed
    if choice.seed is not None:
        wanted &= activations.seeds == choice.seed
    places = np.flatnonzero(wanted)
    if not places.size:
        return None
    return int(places[np.lexsort((activations.seeds[places], activations.data_seeds[places]))[0]])


def draw_matrix(axes: Axes, matrix: NDArray[np.float64], ticks: bool = True) -> None:
    """Rules downwards, modules to the right."""
    axes.grid(False)
    axes.imshow(matrix, cmap=COLOUR_MAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.spines[:].set_visible(False)
    for axis, size in ((axes.xaxis, matrix.shape[1]), (axes.yaxis, matrix.shape[0])):
        places = (sorted({0, size - 1}) if size > 8 else list(range(size))) if ticks else []
        axis.set_ticks(places, [str(place) for place in places])
    axes.tick_params(labelsize=7, length=2)


def add_colour_bar(figure: Figure) -> None:
    """A colour bar in the upper right corner, beside the title."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes(((width - 1.75) / width, 1 - 0.24 / height, 1.4 / width, 0.1 / height))
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), COLOUR_MAP), cax=axes, orientation="horizontal")
    bar.set_ticks([0, 0.5, 1], labels=["0", "0.5", "1"])
    bar.ax.tick_params(labelsize=7, length=2, pad=1)
    figure.text(
        (width - 1.82) / width, 1 - 0.19 / height, "p(module | rule)", size=8, ha="right", va="center"
    )


def member_words(found: Sequence[tuple[Activations, int]]) -> str:
    """Which member is shown."""
    members = {(int(a.data_seeds[i]), int(a.seeds[i])) for a, i in found}
    return " and ".join(f"task {data_seed}, seed {seed}" for data_seed, seed in sorted(members))


def as_table(matrix: NDArray[np.float64], **columns: object) -> pd.DataFrame:
    """A row per rule and module of a drawn matrix."""
    rule, module = np.indices(matrix.shape)
    long = pd.DataFrame({"rule": rule.ravel(), "module": module.ravel(), "probability": matrix.ravel()})
    return long.assign(**columns)[[*columns, "rule", "module", "probability"]]
