"""The committed results behind the pages, the studies that made them, and forms that tables share."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.intervals import LEVEL, intervals
from modtf.analysis.pairs import ratios_to
from modtf.analysis.table import table_cells
from modtf.analysis.trained import how_measured
from modtf.pages.pictures import Picture, png_of
from modtf.pages.text import markdown_table
from modtf.results import CellFolder
from modtf.tasks.cell import Cell

DOCS = Path(__file__).parents[1]
RESULTS, IMAGES = DOCS / "study", DOCS / "images"
WHERE = {"in": IN, "out": OUT}
ENDS = ["mean", "low", "high"]  # columns of an interval


def archive(*names: str) -> modtf.Study:
    """Read archives of docs/study."""
    return modtf.Study.read([RESULTS / f"{name}.zip" for name in names])


def study_file(name: str) -> ModuleType:
    """Return a file of docs/studies as a module."""
    modtf.load_plugin(DOCS / "studies" / f"{name}.py")
    return sys.modules[name]


def interval_of(rows: pd.DataFrame, level: float = LEVEL) -> NDArray[np.float64]:
    """Return the mean of `value` over tasks, and the ends of its interval."""
    [ends] = intervals(rows, [], level=level)[ENDS].to_numpy(float)
    return ends


def ratio_of(rows: pd.DataFrame, others: pd.DataFrame, level: float = LEVEL) -> NDArray[np.float64]:
    """Return the geometric mean of the ratios of two tables on the same tasks, with the interval's ends."""
    [ends] = ratios_to(rows, others, level=level)[ENDS].to_numpy(float)
    return ends


def folder_names(rows: pd.DataFrame) -> pd.Series:
    """Return the names of the folders of the rows' cells."""
    return rows["folder"].astype(str).str.rsplit("/").str[-1]


def label(part: modtf.Study) -> str:
    """Return the name of the one task type of a study."""
    return kind_label(*part.kinds[0][:2])


def stands_on(cells: Sequence[CellFolder], checkpoint: str, table: str) -> str:
    """Return a Markdown table below the lines of `how_measured`."""
    return "\n".join(f"*{line}*  " for line in how_measured(cells, checkpoint)) + f"\n\n{table}"


def whole_kinds(cells: Sequence[CellFolder], planned: Sequence[Cell]) -> list[CellFolder]:
    """Return the finished cells of the task types whose planned cells are all finished."""
    finished = [cell for cell in cells if cell.is_finished]
    hashes = {cell.definition.hash for cell in finished}
    partial = {(cell.task.arch, cell.task.setting) for cell in planned if cell.hash not in hashes}
    return [cell for cell in finished if (cell.cell["arch"], cell.cell["setting"]) not in partial]


def write_pngs(pictures: Mapping[str, Picture], folder: Path) -> list[Path]:
    """Write NAME.png of each picture; return the paths."""
    for name, picture in pictures.items():
        (folder / f"{name}.png").write_bytes(png_of(picture))
    return [folder / f"{name}.png" for name in pictures]


def titled(part: modtf.Study, words: str, table: str) -> str:
    """Return a table with its task type, a few words and the lines of `stands_on` above it."""
    return stands_on(part.cells, part.checkpoint, f"**{label(part)}, {words}**\n\n{table}")


def measures_table(rows: pd.DataFrame, level: float) -> str:
    """Return performance and measures of every variant in Markdown, without parameters and seconds."""
    header, cells = table_cells(rows, level)
    return markdown_table(header[:-2], [row[:-2] for row in cells])


def split(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the rows in distribution and those out of distribution."""
    return [rows[rows["distribution"] == where] for where in WHERE.values()]


def headed(names: Iterable[str]) -> list[str]:
    """Return "NAME, in" and "NAME, out" for every name."""
    return [f"{name}, {where}" for name in names for where in WHERE]


def forest(
    axes: Axes,
    rows: Mapping[str, Sequence[float]],
    label: str = "",
    shift: float = 0.0,
    colour: str = "#0072B2",
) -> None:
    """Draw means with their intervals, a line for each name."""
    for place, (value, low, high) in enumerate(rows.values()):
        axes.errorbar(
            value, place - shift, xerr=[[value - low], [high - value]], fmt="o", color=colour, ms=5,
            label=label if label and not place else None,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), list(rows), fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path, dpi: int = 110) -> Path:
    """Write a figure that pyplot does not know."""
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=dpi, metadata={"Software": None})
    return path
