"""Draw examples of the values of the measures: `python docs/scripts/draw_measures.py`.

It writes docs/images/measures.png and docs/images/measures_other_sizes.png, and prints the tables of
docs/measure_values.md.
"""

from pathlib import Path

import numpy as np
from sources import IMAGES, save

from modtf.analysis.figures.activation import as_table, heat_maps
from modtf.metrics import activation_measures, measure_all, uniform_activation
from modtf.pages.text import markdown_table

DPI = 80

Matrices = dict[str, np.ndarray]


def one_each(modules: list[int], num_modules: int) -> np.ndarray:
    """Return the matrix [R, M] that sends rule r to module `modules[r]` only."""
    return np.eye(num_modules)[modules]


SQUARE: Matrices = {
    "perfect": one_each([2, 0, 3, 1], 4),
    "almost": 0.8 * one_each([2, 0, 3, 1], 4) + 0.2 * uniform_activation(4),
    "shared": one_each([0, 0, 1, 2], 4),
    "in pairs": np.kron(np.eye(2), uniform_activation(2)),
    "collapsed": one_each([1, 1, 1, 1], 4),
    "random": uniform_activation(4),
}
OTHER_SIZES: Matrices = {
    "M = 6, two idle": one_each([0, 1, 2, 3], 6),
    "M = 8, two each": np.kron(np.eye(4), uniform_activation(1, 2)),
    "M = 8, random": uniform_activation(4, 8),
    "M = 2, two each": one_each([0, 0, 1, 1], 2),
    "M = 2, uneven": one_each([0, 0, 0, 1], 2),
    "M = 2, random": uniform_activation(4, 2),
}
PICTURES = {
    "measures": ("Four rules, four modules", SQUARE),
    "measures_other_sizes": ("Four rules, other numbers of modules", OTHER_SIZES),
}


def draw(name: str, title: str, matrices: Matrices, folder: Path = IMAGES) -> Path:
    """Write one heat map per matrix, side by side, to folder/NAME.png."""
    tables = [as_table(values, variant=case) for case, values in matrices.items()]
    note = "Rows: rules; columns: modules."
    picture = heat_maps(tables, name, title, note, None, "variant", (1.9, 1.55))
    return save(picture.figure, folder / f"{name}.png", DPI)


def table(matrices: Matrices) -> str:
    """Return the measures of each matrix, in Markdown."""
    names = [measure.name for measure in activation_measures()]
    rows = []
    for case, values in matrices.items():
        found = measure_all(values)
        rows.append([case, *(f"{found[name]:.2f}" for name in names)])
    return markdown_table(["", *(name.replace("_", " ") for name in names)], rows)


if __name__ == "__main__":
    for picture_name, (words, drawn) in PICTURES.items():
        draw(picture_name, words, drawn)
        print(f"{words}\n\n{table(drawn)}\n")
